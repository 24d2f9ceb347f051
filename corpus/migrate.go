package corpus

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the SQL of each step, oldest first. The database's user_version is how many of them it has had.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []string
	for i, name := range names { // Glob sorts
		if want := fmt.Sprintf("%04d_", i+1); path.Base(name)[:5] != want {
			return nil, fmt.Errorf("%s: the next migration's name must begin with %s", name, want)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	return steps, nil
}

// migrate brings the database to this program's version, each step in a transaction of its own.
func migrate(ctx context.Context, db *sql.DB) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, db, len(steps))
	if err != nil {
		return err
	}
	for i := have; i < len(steps); i++ {
		if err := migrateStep(ctx, db, steps[i], i+1); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
	}
	return nil
}

func migrateStep(ctx context.Context, db *sql.DB, step string, version int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, step); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaVersion returns the database's version and refuses one that a newer program made.
func schemaVersion(ctx context.Context, db *sql.DB, known int) (int, error) {
	var have int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return 0, err
	}
	if have > known {
		return 0, fmt.Errorf("the database is of version %d and this program knows %d at most: use the newer program that wrote it", have, known)
	}
	return have, nil
}
