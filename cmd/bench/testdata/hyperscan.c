// A program over Hyperscan as the benchmark's peer.
//
//   hyperscan accept literals|patterns LIST        prints the numbers of the lines of LIST that Hyperscan takes
//   hyperscan compile literals|patterns LIST DB    compiles all lines of LIST into DB
//   hyperscan scan DB LOG                          scans LOG in one block; prints how many matches, and seconds by the clock and of processor time
//
// A line of LIST is i or - (whether case counts), a tab, and the literal or pattern.
#include <fcntl.h>
#include <hs/hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char **texts;
static unsigned *flags, *ids;
static size_t *lengths, count;

static void die(const char *what, const char *why) {
	fprintf(stderr, "hyperscan: %s: %s\n", what, why ? why : "failed");
	exit(1);
}

static void read_list(const char *path) {
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	if (!f)
		die(path, "cannot be opened");
	while ((n = getline(&line, &room, f)) > 2) {
		if (line[n - 1] == '\n')
			line[--n] = 0;
		texts = realloc(texts, (count + 1) * sizeof *texts);
		flags = realloc(flags, (count + 1) * sizeof *flags);
		ids = realloc(ids, (count + 1) * sizeof *ids);
		lengths = realloc(lengths, (count + 1) * sizeof *lengths);
		texts[count] = strdup(line + 2);
		lengths[count] = n - 2;
		flags[count] = line[0] == 'i' ? HS_FLAG_CASELESS : 0;
		ids[count] = count;
		count++;
	}
	fclose(f);
}

static hs_database_t *compile(int literals, size_t from, size_t to, char **why) {
	hs_database_t *db = NULL;
	hs_compile_error_t *err = NULL;
	hs_error_t code;
	if (literals)
		code = hs_compile_lit_multi((const char *const *)texts + from, flags + from, ids + from, lengths + from, to - from, HS_MODE_BLOCK, NULL, &db, &err);
	else
		code = hs_compile_multi((const char *const *)texts + from, flags + from, ids + from, to - from, HS_MODE_BLOCK, NULL, &db, &err);
	if (code != HS_SUCCESS && why)
		*why = err ? err->message : "failed";
	return code == HS_SUCCESS ? db : NULL;
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flag, void *n) {
	(void)id, (void)from, (void)to, (void)flag;
	++*(unsigned long long *)n;
	return 0;
}

static double now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void scan(const char *db_path, const char *log_path) {
	struct stat st;
	hs_database_t *db = NULL;
	hs_scratch_t *scratch = NULL;
	unsigned long long matches = 0;
	int f = open(db_path, O_RDONLY);
	if (f < 0 || fstat(f, &st))
		die(db_path, "cannot be opened");
	char *bytes = malloc(st.st_size);
	if (read(f, bytes, st.st_size) != st.st_size || hs_deserialize_database(bytes, st.st_size, &db) != HS_SUCCESS || hs_alloc_scratch(db, &scratch) != HS_SUCCESS)
		die(db_path, "is no database");
	close(f);
	double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	if ((f = open(log_path, O_RDONLY)) < 0 || fstat(f, &st))
		die(log_path, "cannot be opened");
	char *log = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, f, 0);
	if (log == MAP_FAILED || hs_scan(db, log, st.st_size, 0, scratch, on_match, &matches) != HS_SUCCESS)
		die(log_path, "cannot be scanned");
	printf("%llu %.6f %.6f\n", matches, now(CLOCK_MONOTONIC) - start, now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

int main(int argc, char **argv) {
	if (argc == 4 && !strcmp(argv[1], "scan")) {
		scan(argv[2], argv[3]);
		return 0;
	}
	if (argc < 4)
		die("usage", "accept, compile or scan");
	int literals = !strcmp(argv[2], "literals");
	read_list(argv[3]);
	for (size_t i = 0; i < count && !literals; i++)
		flags[i] |= HS_FLAG_MULTILINE;
	if (!strcmp(argv[1], "accept")) {
		for (size_t i = 0; i < count; i++) {
			hs_database_t *db = compile(literals, i, i + 1, NULL);
			if (db)
				printf("%zu\n", i);
			hs_free_database(db);
		}
		return 0;
	}
	char *why = NULL, *bytes;
	size_t size;
	hs_database_t *db = compile(literals, 0, count, &why);
	if (!db)
		die(argv[3], why);
	if (hs_serialize_database(db, &bytes, &size) != HS_SUCCESS)
		die(argv[4], "cannot be written");
	FILE *out = fopen(argv[4], "w");
	if (!out || fwrite(bytes, 1, size, out) != size || fclose(out))
		die(argv[4], "cannot be written");
	return 0;
}
