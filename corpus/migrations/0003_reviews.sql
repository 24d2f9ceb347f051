-- What people say of a verdict, beside it. The verdict may change with the rules; what people said stays.
CREATE TABLE correction (
	attempt_id INTEGER PRIMARY KEY REFERENCES attempt (id) ON DELETE CASCADE,
	category   TEXT NOT NULL, -- what it was; the verdict's own where a person agreed
	fault      TEXT NOT NULL,
	why        TEXT NOT NULL,
	who        TEXT NOT NULL, -- as the person said; '' unknown
	at         INTEGER NOT NULL
) STRICT;

-- What people say of a kind of failure.
CREATE TABLE fingerprint_note (
	fingerprint TEXT PRIMARY KEY,
	note        TEXT NOT NULL,
	ticket      TEXT NOT NULL, -- a link, or ''
	resolved    INTEGER,       -- since when; NULL: it is not
	who         TEXT NOT NULL,
	at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
