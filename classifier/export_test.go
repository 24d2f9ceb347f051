package classifier

// RankOf is the rank that speaks in a line.
func RankOf(raw []byte) string { return undress(raw).rank }
