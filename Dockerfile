# SQLite is C, so the binary is linked against the libc of the image that runs it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o /culprit ./cmd/culprit

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /data culprit && install -d -o culprit -g culprit /data
COPY --from=build /culprit /usr/local/bin/culprit
USER culprit
VOLUME /data
EXPOSE 8080
ENV CULPRIT_LISTEN=:8080 CULPRIT_DATA=/data
HEALTHCHECK --interval=30s --timeout=3s CMD ["culprit", "healthcheck", "--url", "http://127.0.0.1:8080"]
ENTRYPOINT ["culprit"]
CMD ["serve"]
