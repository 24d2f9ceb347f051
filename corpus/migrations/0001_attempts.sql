-- What is true of jobs and attempts. Times are milliseconds since 1970 in UTC; an unknown string is '', an unknown
-- time or exit code NULL.

CREATE TABLE job (
	id      INTEGER PRIMARY KEY,
	cluster TEXT NOT NULL,
	job     TEXT NOT NULL, -- the scheduler's id
	user    TEXT NOT NULL, -- '' until somebody says whose it is
	UNIQUE (job, cluster)
) STRICT;

CREATE TABLE attempt (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	rev        INTEGER NOT NULL, -- raised over all others by every change: what the projections follow
	job_id     INTEGER NOT NULL REFERENCES job (id),
	number     INTEGER NOT NULL,
	run_id     TEXT NOT NULL,
	name       TEXT NOT NULL,
	vc         TEXT NOT NULL,
	gpus       INTEGER NOT NULL,
	gpu_type   TEXT NOT NULL,
	nodes      TEXT NOT NULL, -- JSON array of strings, or ''
	submitted  INTEGER,
	started    INTEGER,
	ended      INTEGER,
	exit_code  INTEGER,
	signal     INTEGER NOT NULL,
	state      TEXT NOT NULL,
	reason     TEXT NOT NULL,
	cost_class TEXT NOT NULL,
	created    INTEGER NOT NULL,
	-- of the verdict, for filters and reports
	category    TEXT NOT NULL,
	fault       TEXT NOT NULL,
	retry       TEXT NOT NULL,
	rule        TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	UNIQUE (job_id, number)
) STRICT;

CREATE UNIQUE INDEX attempt_by_rev ON attempt (rev);
CREATE UNIQUE INDEX attempt_by_run ON attempt (job_id, run_id) WHERE run_id <> '';

-- The verdict as JSON, apart from the attempt so that reading all attempts does not read all verdicts.
CREATE TABLE verdict (
	attempt_id INTEGER PRIMARY KEY REFERENCES attempt (id) ON DELETE CASCADE,
	body       TEXT NOT NULL
) STRICT;

-- A log by its content: the file is logs/ab/<digest in hex>.zst.
CREATE TABLE log (
	digest BLOB PRIMARY KEY, -- sha-256 of the text
	bytes  INTEGER NOT NULL, -- of the text
	lines  INTEGER NOT NULL,
	stored INTEGER NOT NULL  -- bytes of the file
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt_log (
	attempt_id INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
	position   INTEGER NOT NULL,
	name       TEXT NOT NULL,
	digest     BLOB NOT NULL REFERENCES log (digest),
	PRIMARY KEY (attempt_id, position)
) STRICT, WITHOUT ROWID;

-- What was sent without run id and number, so that the same sent again is the same attempt.
CREATE TABLE sent (
	job_id     INTEGER NOT NULL REFERENCES job (id),
	hash       BLOB NOT NULL, -- sha-256 of fields and log digests as sent
	attempt_id INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
	PRIMARY KEY (job_id, hash)
) STRICT, WITHOUT ROWID;
