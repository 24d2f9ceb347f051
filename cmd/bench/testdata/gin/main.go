// Command gin is the benchmark's peer of the server: it reads a request's body and does nothing with it.
package main

import (
	"io"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.POST("/api/v1/classify", func(c *gin.Context) {
		if _, err := io.Copy(io.Discard, c.Request.Body); err != nil {
			c.Status(http.StatusBadRequest)
			return
		}
		c.JSON(http.StatusOK, gin.H{"read": true})
	})
	r.GET("/readyz", func(c *gin.Context) { c.Status(http.StatusOK) })
	if err := http.ListenAndServe(os.Args[1], r); err != nil {
		panic(err)
	}
}
