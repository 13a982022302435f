/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads samples to predict, one after another: idx (plain or .gz), npy and raw f32 files, images (resized and
 * cut as in the run's evaluation), and text with a sample on each line (csv). Numbers are delivered as in the
 * file, without data.scale. Text of any length needs memory only for its longest line. It knows no model. */
#ifndef ENGINE_DATA_OPEN_ROWS_H
#define ENGINE_DATA_OPEN_ROWS_H

#include "engine/base/dtype.h"
#include "engine/base/hash.h"
#include "engine/base/scope.h"
#include "engine/config/config.h"

struct clt_source_type;
struct clt_table;

/* The input format with this name; NULL: there is none. */
const struct clt_source_type *clt_rows_type(const char *name);
/* The names of all input formats, such as "idx, npy, raw, csv or nifti"; returns buffer. */
const char *clt_rows_types(const char *between, const char *last, char *buffer, size_t size);

/* Finds the format of a file from its first bytes or, if they do not tell it, from its name. `own`: the
 * run's format, which has precedence for folders and for names that several formats share; NULL: unknown.
 * CLT_EUSAGE: neither bytes nor name tell the format; the message asks for `option` ("--input-type "). */
clt_status clt_rows_guess_type(const char *path, const struct clt_source_type *own, const char *option,
                               const struct clt_source_type **type);
/* True if the path is a table in the run's format `own`, packed with gzip, such as houses.csv.gz. */
bool clt_rows_is_packed_table(const char *path, const struct clt_source_type *own);

typedef struct clt_rows clt_rows;

typedef struct clt_rows_facts {
    int64_t samples;  /* -1: unknown until the end is reached */
    bool shaped;      /* the file states the shape of a sample; raw files and lines of text do not */
    clt_shape shape;  /* shape of one sample, if `shaped` */
    bool floats;      /* an array of floating-point numbers, which may be scaled already */
    bool bytes;       /* an array or image of bytes, which training would scale to [0, 1] */
    char header[128]; /* the beginning of a header line that was skipped, or "" */
} clt_rows_facts;

/* True if a path can be read only once: "-" (the standard input), a pipe, a terminal or the like. */
bool clt_rows_once(const char *path);

/* Opens an input. If it can be read only once, it must be lines of numbers, separated by commas, spaces,
 * tabs or semicolons. `type` NULL: clt_rows_guess_type finds the format; CLT_EUSAGE if it cannot. `shape`:
 * the shape of the model's samples; samples of raw files have this shape, and a line of text has the same
 * number of elements. `run`: the run's config; NULL: unknown. A csv file with more columns than the model
 * has inputs is read as in training, without the target. `table`: the facts that the run learned from its
 * own table; NULL: it had none. With them a csv file is read as a table with the same columns, in any order
 * if they have names. The message of CLT_EDATA names the file and what is wrong. */
clt_status clt_rows_open(const char *path, const struct clt_source_type *type, const clt_shape *shape,
                         const clt_config *run, const struct clt_table *table, clt_rows **out);
/* The same for an input that was opened before; its warnings are not repeated. */
clt_status clt_rows_open_again(const char *path, const struct clt_source_type *type, const clt_shape *shape,
                               const clt_config *run, const struct clt_table *table, clt_rows **out);
/* Opens the rows of the run's own table (data.path) that data.split keeps for evaluation, in the order of
 * evaluation. `again`: warnings of an earlier opening are not repeated. */
clt_status clt_rows_open_held_out(const clt_shape *shape, const clt_config *run,
                                  const struct clt_table *table, bool again, clt_rows **out);
void clt_rows_close(clt_rows *rows); /* NULL is fine */
CLT_SCOPED_POINTER(clt_rows, clt_rows_close)
/* Facts about the input. The header of text is known after the first clt_rows_next. */
const clt_rows_facts *clt_rows_describe(const clt_rows *rows);
/* The file that holds only this sample, if the input is such a file, or a folder or pack of such files.
 * *path is valid until the next call; NULL: files hold many samples. */
clt_status clt_rows_file(clt_rows *rows, int64_t sample, const char **path);
/* True if the command line sets data.on_bad_sample=skip, so that images that cannot be read are skipped. */
bool clt_rows_skip(const clt_config *run);
/* True if a sample that clt_rows_next gave is an image that cannot be decoded and is skipped; its numbers are
 * 0. */
bool clt_rows_left_out(const clt_rows *rows, int64_t sample);
/* The fingerprint of the input's file (data.h); "": it has none. */
void clt_rows_fingerprint(const clt_rows *rows, char text[CLT_HASH64_TEXT]);
/* The line of the table that contains this held-out sample. */
int64_t clt_rows_line(const clt_rows *rows, int64_t sample);
/* Reads the next samples, at most `most`, and writes their elements to `out`. *got 0: the end. CLT_EDATA: a
 * value is not a finite number, or a line has too few or too many numbers; the message names the file and
 * the line or sample. */
clt_status clt_rows_next(clt_rows *rows, int64_t most, double *out, int64_t *got);

#endif
