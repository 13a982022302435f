/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: sources (one file per format) give random access to samples made of named typed fields; the sampler
 * says which sample is at which place of an endless stream, as a pure function; the loader's threads fill
 * slots ahead of time. Fields upload raw (u8, u16). It knows nothing of devices: slots are host memory that
 * the caller provides (pinned). */
#ifndef ENGINE_DATA_DATA_H
#define ENGINE_DATA_DATA_H

#include "engine/base/dtype.h"
#include "engine/base/hash.h"
#include "engine/config/part.h"
#include "engine/graph/graph.h"

#define CLT_MAX_FIELDS 8

typedef enum clt_split {
    CLT_SPLIT_TRAIN,
    CLT_SPLIT_EVAL,
    CLT_SPLIT_TRAIN_ONCE /* the training data as evaluation takes it: in order, each target once */
} clt_split;

typedef struct clt_source_field {
    const char *name; /* "x", "y" */
    clt_dtype dtype;
    clt_shape shape;   /* of one sample, without the batch dimension */
    bool is_index;     /* integers that select classes or embeddings: checked against a bound */
    int64_t max_value; /* largest value in the data, found when the source was opened (is_index only) */
} clt_source_field;

struct clt_tokenizer;
typedef struct clt_source clt_source;
/* What makes a sample another one each time that it is seen: equal draws give equal samples. */
typedef struct clt_draw {
    uint64_t seed;
    uint32_t epoch; /* how often the stream has gone through all samples; 0 in evaluation */
} clt_draw;

typedef struct clt_source_type {
    const clt_config_part *format; /* what the config knows of it: name, keys, rules */
    clt_status (*open)(clt_source *source, const clt_config *config, clt_split split);
    void (*close)(clt_source *source);
    /* Writes sample `index`: each field to its place in `to`, those with NULL are not wanted. What is random
     * about it, such as a crop, follows from `draw` alone. Called from several threads at once. */
    clt_status (*read)(const clt_source *source, int64_t index, clt_draw draw, void *const *to);
    /* Number of elements of `field` in sample `index` that differ from ignore, for any draw. NULL: read and
     * count. */
    int64_t (*count_valid)(const clt_source *source, int64_t index, int field, int64_t ignore);
    /* Appends where sample `index` of `field` lies ("'labels.idx', sample 17 (from byte 25 on)"). NULL: the
     * index alone. */
    void (*locate)(const clt_source *source, int64_t index, int field, clt_str *out);
    /* clt_source_check_bound of a source that knows its values, or checks them whenever they are read, and so
     * needs no pass over all samples; *done false: it cannot say. NULL: it never can. Called before any read
     * whose values must be in bounds. */
    clt_status (*check_bound)(const clt_source *source, int field, int64_t bound, bool has_ignore,
                              int64_t ignore, bool *done);
    /* Reads everything once, with all checks. NULL: by reading every sample. */
    clt_status (*scan)(const clt_source *source);
    /* Adds the content of the data to a fingerprint (fingerprint.h). NULL: it has none. */
    void (*fingerprint)(const clt_source *source, clt_hash64_state *state);
    /* Bytes of text that the counted targets of sample `index` stand for (targets that equal `ignore`, or
     * were counted before, count nothing). NULL: the data is no text. Needs source->tokenizer. */
    int64_t (*target_bytes)(const clt_source *source, int64_t index, int64_t ignore);

    /* --- what can be said before anything is opened --- */

    /* Whether there is evaluation data though data.eval_path names none. NULL: there is not. */
    bool (*has_eval)(const clt_config *config);
    bool holds_targets;    /* inputs and targets lie in the same file */
    const char *eval_hint; /* what a config without evaluation data lacks: "data.eval_path and ..." */
    /* Opens the tokenizer of a config that names none; *out stays NULL when it is not known. NULL: the data
     * is no text. */
    clt_status (*default_tokenizer)(const clt_config *config, struct clt_tokenizer **out);
    /* Sets the fields from the config and the tokenizer (NULL: not known) alone, as of a source of so many
     * samples. NULL: only the files tell them. */
    clt_status (*shapes)(const clt_config *config, const struct clt_tokenizer *tokenizer, int64_t samples,
                         clt_source *source);
    /* One file by itself, whose name ends with `suffix` (NULL: any that no other format claims): reads it to
     * the end, with all checks, and appends a line about it. `tokenizer`: a path, or "". NULL: a file cannot
     * be checked without a config. */
    const char *suffix;
    clt_status (*check_file)(const char *path, const char *tokenizer, clt_str *out);
} clt_source_type;

struct clt_source {
    const clt_source_type *type;
    clt_arena *arena;
    int n_fields;
    clt_source_field fields[CLT_MAX_FIELDS];
    int64_t samples;
    float scale, mean, std; /* (x*scale - mean)/std for integer x; 1, 0, 1 when absent, and for float x, which
                               is read normalised */
    int64_t bytes;          /* size of the raw data, for reports */
    /* Text and tokens: */
    const struct clt_tokenizer *tokenizer; /* of the source; NULL: unknown, or the data is no text */
    int64_t tokens;                        /* in this split */
    double bytes_per_token;                /* bytes of text for each token of this split; 0: unknown */
    const char *const *class_names;        /* of the targets 0, 1, ...; NULL: they have none */
    int64_t n_class_names;
    const char *description; /* one line: "idx: 60000 samples of (28,28) u8, labels 0..9, from ..." */
    void *state;
};

/* clt_source_open: CLT_EDATA messages name the file, the byte offset or sample where that helps, why, what to
 * do. */
clt_status clt_source_open(const clt_config *config, clt_split split, clt_source **out);
/* The format that a checked config chose. */
const clt_source_type *clt_source_type_of(const clt_config *config);
/* check_file of the format that the file's name says. */
clt_status clt_source_check_file(const char *path, const char *tokenizer, clt_str *out);
/* True when the config names evaluation data (or a split of the training data). */
bool clt_source_has_eval(const clt_config *config);
void clt_source_close(clt_source *source);
const clt_source_type *const *clt_source_types(int *count);
/* One field of a sample, with the draw of evaluation. */
clt_status clt_source_read_field(const clt_source *source, int64_t index, int field, void *dst);
/* Elements of `field` in sample `index` that differ from ignore. scratch: room for one sample of the field.
 */
clt_status clt_source_count_valid(const clt_source *source, int64_t index, clt_draw draw, int field,
                                  int64_t ignore, void *scratch, int64_t *count);
/* For formats whose fields have nothing to do with one another, and nothing random: reads those that are
 * wanted, one after the other. */
typedef clt_status (*clt_field_reader)(const clt_source *source, int64_t index, int field, void *dst);
clt_status clt_source_read_fields(const clt_source *source, int64_t index, void *const *to,
                                  clt_field_reader reader);
/* Bytes of one sample of a field. */
size_t clt_source_field_bytes(const clt_source_field *field);
/* Checks that every value of an index field is in [0, bound) or equals ignore: CLT_EDATA names file, sample
 * and value. */
clt_status clt_source_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore);

/* Reads everything that the source holds once, with the checks of reading: what `data verify` does. */
clt_status clt_source_scan(const clt_source *source);

/* Fingerprint of the content as 16 hexadecimal digits, the same wherever the data lies; "" when the data has
 * none (synthetic data follows from the config). */
const char *clt_source_fingerprint(const clt_source *source, char text[CLT_HASH64_TEXT]);

/* Sample index at place `position` of the endless stream: epoch = position / n; inside an epoch a keyed
 * permutation (shuffle) or the identity. */
int64_t clt_sample_index(uint64_t position, int64_t n, uint64_t seed, bool shuffle);
/* The draw of the sample at that place. */
clt_draw clt_sample_draw(uint64_t position, int64_t n, uint64_t seed);

/* A filled slot: one micro-batch of one rank. */
typedef struct clt_slot {
    void *data;                        /* caller's memory; fields at their offsets */
    int64_t step;                      /* batch number k */
    int32_t micro;                     /* 0 .. accumulation-1 */
    uint64_t sample_base;              /* place of the first sample inside the global batch */
    int64_t valid_samples;             /* < micro_batch only in the last evaluation batch */
    double normaliser[CLT_MAX_LOSSES]; /* counted targets of the whole global batch, per loss; 0 when all are
                                          ignored */
    double load_seconds;
    clt_error error; /* status != CLT_OK: loading failed, text says why */
    int32_t index;   /* which slot */
} clt_slot;

typedef struct clt_loader_options {
    clt_source *source;
    int n_fields;
    int source_field[CLT_MAX_FIELDS]; /* field of the source that fills graph field i */
    uint64_t offset[CLT_MAX_FIELDS];  /* bytes from the slot's start */
    int64_t micro_batch, global_batch;
    int32_t accumulation, rank, ranks;
    uint64_t seed;
    bool shuffle;
    bool evaluation; /* each sample once, in order; the last micro-batch padded by repeating sample 0;
                        micro-batches dealt to ranks in turn; normaliser is 1 for every loss; clt_loader_next
                        gives *slot = NULL at the end */
    int64_t first_step, last_step; /* training: batches [first, last) */
    const clt_graph *graph;        /* losses: which field is counted, and how */
    int workers;                   /* >= 1 threads */
    int n_slots;                   /* >= 2 */
    void **slots;                  /* n_slots pieces of memory of slot_bytes each */
    uint64_t slot_bytes;
    struct clt_spans *spans; /* borrowed: where the threads note what they did; NULL: nowhere */
    /* Asked while clt_loader_next waits: an error ends the wait, since who has the slots may never give one
     * back (a driver need not call back when an upload fails). NULL: never. */
    clt_status (*check)(void *context);
    void *check_context;
} clt_loader_options;

typedef struct clt_loader clt_loader;
/* "auto": 75 % of the cores divided by local ranks, at least 1. */
int clt_loader_auto_workers(int local_ranks);
clt_status clt_loader_create(const clt_loader_options *options, clt_loader **out);
/* Joins the threads; safe at any moment. Slots may still be given back until the loader is destroyed. */
void clt_loader_stop(clt_loader *loader);
/* The same, and frees the loader. */
void clt_loader_destroy(clt_loader *loader);
/* Next micro-batch in order (blocks until it is filled); a slot with an error returns that error. *slot NULL
 * at the end. */
clt_status clt_loader_next(clt_loader *loader, clt_slot **slot);
/* Gives the slot back for refilling. Callable from any thread. */
void clt_loader_release(clt_loader *loader, clt_slot *slot);
/* Seconds the consumer waited in clt_loader_next so far. */
double clt_loader_wait_seconds(const clt_loader *loader);

#endif
