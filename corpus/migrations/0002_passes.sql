-- A pass reads the kept logs again with new rules. The newest one tells where to go on after a crash.
CREATE TABLE pass (
	id            INTEGER PRIMARY KEY AUTOINCREMENT,
	state         TEXT NOT NULL,    -- running, paused, done, cancelled, failed
	rules_version TEXT NOT NULL,
	every         INTEGER NOT NULL, -- 1: also attempts whose verdict is by these rules already
	dry_run       INTEGER NOT NULL, -- 1: verdicts stay as they are
	position      INTEGER NOT NULL, -- attempts up to this id are done
	last          INTEGER NOT NULL, -- the id of the last attempt to be read
	total         INTEGER NOT NULL, -- attempts to be read
	done          INTEGER NOT NULL, -- attempts read, failed ones included
	failed        INTEGER NOT NULL, -- attempts whose logs could not be read
	bytes         INTEGER NOT NULL, -- of the text of the logs read
	started       INTEGER NOT NULL,
	ended         INTEGER,
	problem       TEXT NOT NULL     -- why it failed
) STRICT;

-- An attempt whose category, fault, retry or rule a pass changed, or would have changed.
CREATE TABLE moved (
	pass_id       INTEGER NOT NULL REFERENCES pass (id) ON DELETE CASCADE,
	attempt_id    INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
	from_category TEXT NOT NULL,
	from_fault    TEXT NOT NULL,
	from_retry    TEXT NOT NULL,
	from_rule     TEXT NOT NULL,
	to_category   TEXT NOT NULL,
	to_fault      TEXT NOT NULL,
	to_retry      TEXT NOT NULL,
	to_rule       TEXT NOT NULL,
	PRIMARY KEY (pass_id, attempt_id)
) STRICT, WITHOUT ROWID;
