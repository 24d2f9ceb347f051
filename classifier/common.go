package classifier

// commonWord says how often a folded word of 4 bytes occurs in logs.
func commonWord(word uint32) int { return 0 }
