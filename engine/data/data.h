/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: sources (one file per format) give random access to samples made of named typed fields; the sampler,
 * a pure function, says which sample is at a position of an endless stream; the loader's threads fill slots
 * ahead of time. Fields are uploaded raw (u8, u16). It knows nothing of devices: slots are host memory that
 * the caller provides (pinned). */
#ifndef ENGINE_DATA_DATA_H
#define ENGINE_DATA_DATA_H

#include "engine/base/dtype.h"
#include "engine/base/hash.h"
#include "engine/base/scope.h"
#include "engine/config/part.h"
#include "engine/graph/graph.h"

#define CLT_MAX_FIELDS 8

typedef enum clt_split {
    CLT_SPLIT_TRAIN,
    CLT_SPLIT_EVAL,
    CLT_SPLIT_TRAIN_ONCE, /* the training data, read as in evaluation: in order, each target once */
    CLT_SPLIT_INPUT, /* data.path holds samples to predict: in order, as in evaluation, without targets */
    CLT_SPLIT_INPUT_AGAIN /* like the previous one, opened once more: warnings are not repeated */
} clt_split;

typedef struct clt_source_field {
    const char *name; /* "x", "y" */
    clt_dtype dtype;
    clt_shape shape;   /* shape of one sample, without the batch dimension */
    bool is_index;     /* integers that select classes or embeddings; they are checked against a bound */
    int64_t max_value; /* largest value in the data, found when the source was opened (is_index only) */
} clt_source_field;

struct clt_tokenizer;
typedef struct clt_source clt_source;
/* The random state for augmentation: a sample is a pure function of its index and its draw. */
typedef struct clt_draw {
    uint64_t seed;
    uint32_t epoch; /* number of the pass over the data; 0 in evaluation */
} clt_draw;

#define CLT_INPUT_BYTES 6
typedef enum clt_likeness {
    CLT_UNLIKE,
    CLT_LIKE, /* a file of a format without a header could also begin with these bytes */
    CLT_SURE
} clt_likeness;

/* Called for each file of a folder that is checked. `text` describes the file if `status` is CLT_OK;
 * otherwise it is the text of the thread's error. `path` is NULL for a good record inside a file, which is
 * only counted. Returns false to end the check. */
typedef bool (*clt_file_tell)(void *context, const char *path, clt_status status, const char *text);

typedef struct clt_source_type {
    const clt_config_part *format; /* the format's part of the config: name, keys, rules */
    clt_status (*open)(clt_source *source, const clt_config *config, clt_split split);
    void (*close)(clt_source *source); /* NULL: all that the source owns is in its arena */
    /* Reads sample `index`: writes field i to to[i], unless that is NULL. Random choices, such as a crop,
     * depend only on `draw`. Called by several threads at a time. */
    clt_status (*read)(const clt_source *source, int64_t index, clt_draw draw, void *const *to);
    /* Writes the numbers of x in sample `index` as they are stored, before normalisation. Called if x is f32
     * and the source was opened for it (clt_source_with). NULL: they are what `read` gives. */
    clt_status (*numbers)(const clt_source *source, int64_t index, double *out);
    /* Called when the model turns out to be a regression on y. The source may then change type and unit of y
     * (source->table states the unit) and sets *changed if it did. NULL: the source never does. */
    clt_status (*regress)(clt_source *source, bool *changed);
    /* Number of elements of `field` in sample `index` that differ from ignore, for any draw. NULL: the
     * sample is read and its elements are compared. */
    int64_t (*count_valid)(const clt_source *source, int64_t index, int field, int64_t ignore);
    /* The class (i32) of sample `index`, if it is the only element of `field`; with this function targets
     * are counted without reading the sample. False: the field is something else. If the sample is replaced
     * by another one because it cannot be read, this is still its own class. NULL: no field is such a
     * class. */
    bool (*class_of)(const clt_source *source, int64_t index, clt_draw draw, int field, int32_t *value);
    /* True if `read` found sample `index` bad and gave zeros, so that evaluation or prediction skips it
     * (data.on_bad_sample=skip). NULL: no sample is ever skipped. */
    bool (*left_out)(const clt_source *source, int64_t index);
    /* Appends, for messages, where sample `index` of `field` is stored ("'labels.idx', sample 17 (from byte
     * 25 on)"). NULL: messages give the index alone. */
    void (*locate)(const clt_source *source, int64_t index, int field, clt_str *out);
    /* Appends the path of the file that holds only sample `index`. NULL: files hold many samples. */
    void (*file_of)(const clt_source *source, int64_t index, clt_str *out);
    /* The number, in its file, of the line that holds sample `index`. NULL: samples are not lines. */
    int64_t (*line_of)(const clt_source *source, int64_t index);
    /* Implements clt_source_check_bound without a pass over all samples, for a source that knows its largest
     * value or checks values at each read. *done false: the source cannot tell this time. NULL: it never
     * can. Called before any read whose values must be in bounds. */
    clt_status (*check_bound)(const clt_source *source, int field, int64_t bound, bool has_ignore,
                              int64_t ignore, bool *done);
    /* Reads everything that is stored for sample `index`, with all checks and without random choices. NULL:
     * `read` does that. May be called by several threads. */
    clt_status (*check_sample)(const clt_source *source, int64_t index);
    /* Reads everything once, with all checks. NULL: every sample is read. */
    clt_status (*scan)(const clt_source *source);
    /* Tells remote files that sample `index` will be read soon (clt_map_want). NULL: no file is remote. */
    void (*want)(const clt_source *source, int64_t index);
    /* Adds the content of the data to a fingerprint (fingerprint.h). NULL: the data has no fingerprint. The
     * caller then calls clt_map_check, which fails if bytes of mapped files are missing. */
    clt_status (*fingerprint)(const clt_source *source, clt_hash64_state *state);
    /* Warns about data that fits the config but is probably not what the user means to train on. NULL: never
     * warns. */
    void (*advise)(const clt_source *source);
    /* Number of bytes of text in the targets of sample `index`. Targets that equal `ignore`, or that an
     * earlier sample contains, too, are not counted. NULL: the data is not text. Needs source->tokenizer. */
    int64_t (*target_bytes)(const clt_source *source, int64_t index, int64_t ignore);

    /* --- what is known before any file is opened --- */

    /* True if there is evaluation data although data.eval_path is empty. NULL: there never is. */
    bool (*has_eval)(const clt_config *config);
    const char *made_by; /* the command that makes such data from common files; NULL: there is none */
    /* A sentence for the message about a missing folder: where its files must be. NULL: the format's own
     * message says so. */
    const char *layout;
    const char *sample; /* a data set of `data fetch` to try the format with; NULL: none */
    bool holds_targets; /* inputs and targets are in the same file */
    /* the keys that a config without evaluation data should set: "data.eval_path and ..." */
    const char *eval_hint;
    /* Opens the tokenizer of a config whose data.tokenizer is empty; *out stays NULL if the tokenizer is not
     * known. NULL: the data is not text. */
    clt_status (*default_tokenizer)(const clt_config *config, struct clt_tokenizer **out);
    /* Sets the fields of a source with `samples` samples without opening files, from the config and the
     * tokenizer (NULL: unknown). NULL: the fields follow from the files. */
    clt_status (*shapes)(const clt_config *config, const struct clt_tokenizer *tokenizer, int64_t samples,
                         clt_source *source);
    /* true if `shapes` can be used for this config; NULL: for all configs */
    bool (*shapes_known)(const clt_config *config);
    /* Checks one file without a config: reads it to the end, with all checks, and appends a line about it.
     * `suffix`: ending of such files' names (NULL: any ending that belongs to no other format). `tokenizer`:
     * a path, or "". check_file NULL: a file cannot be checked without a config. */
    const char *suffix;
    clt_status (*check_file)(const char *path, const char *tokenizer, clt_str *out);
    /* For data of many files: reads all files of a config, or of a folder, and calls `tell` for each. *mine
     * false: the folder has no data of this format. NULL: the format has no such folders. */
    clt_status (*check_config)(const clt_config *config, clt_file_tell tell, void *context);
    clt_status (*check_folder)(const char *folder, clt_file_tell tell, void *context, bool *mine);

    /* --- files of samples to predict (rows.h) --- */

    const char *const *input_ends; /* endings of their names, the last one NULL; NULL: there are none */
    /* Judges whether a file has this format from its first `n` bytes, at most CLT_INPUT_BYTES. NULL: the
     * format cannot be recognised by content. */
    clt_likeness (*input_likeness)(const unsigned char *first, size_t n);
    bool input_lines;     /* each line has the numbers of a sample */
    bool input_shapeless; /* the file does not state the shape of a sample */
    bool input_like_run;  /* what is read depends on keys of the run's config */
} clt_source_type;

/* How a source is opened, besides its config. All pointers are borrowed while it is opened. */
typedef struct clt_source_with {
    /* The facts about the inputs that a saved run learned from its table; NULL: they are learned from this
     * data. */
    const struct clt_table *table;
    /* `table` is used only if the config takes its columns and target from this data; otherwise a warning
     * says that all facts are learned again. */
    bool table_may_differ;
    /* The saved run's other facts, so that targets become the same numbers as in that run. NULL: they are
     * learned from this data. */
    const struct clt_data_facts *facts;
    /* The open training data of the same config: evaluation data is read in the same way. NULL: none. */
    const clt_source *training;
    /* The caller calls only `numbers`, never `read`. Then a table needs no target if `table` is given. */
    bool numbers;
} clt_source_with;

struct clt_source {
    const clt_source_type *type;
    clt_source_with with;
    clt_arena *arena;
    int n_fields;
    clt_source_field fields[CLT_MAX_FIELDS];
    int64_t samples;
    /* Number of neighbouring samples that shuffling keeps together, in their order, since they are read from
     * the same file; it divides `samples`. 0 and 1: each sample is moved separately. */
    int64_t together;
    /* Normalisation of x on the device: (x*scale - mean)/std. 1, 0, 1 if the config has no normalisation,
     * and for float data, which is normalised when it is read. */
    double scale, mean, std;
    bool byte_scale; /* data.scale was not set, and is 1/255 because the data is bytes */
    /* Number of channels (dimension 0 of x) if each has its own mean and std; 0: all have the same. */
    int channels;
    double channel_mean[CLT_MAX_NUMBERS], channel_std[CLT_MAX_NUMBERS];
    bool flags;    /* x is booleans: bytes 0 and 1 */
    bool remote;   /* files may be remote, so that calls of `want` help */
    int64_t bytes; /* size of the raw data, for reports */
    /* Text and tokens: */
    const struct clt_tokenizer *tokenizer; /* NULL: unknown, or the data is not text */
    int64_t tokens;                        /* number of tokens in this split */
    /* mean number of bytes of text per token of this split; 0: unknown */
    double bytes_per_token;
    const char *chat; /* name of the chat template by which the samples were written; NULL: there is none */
    const char *const *class_names; /* names of the classes 0, 1, ...; NULL: they have none */
    int64_t n_class_names;
    /* targets that are words: the first one that is not a number ("line 5, column 'y': 'NA'"); NULL: all are
     * numbers */
    const char *words;
    /* in a training part: how many different targets there are that are whole numbers or words; 0:
     * unknown */
    int64_t distinct;
    /* table: facts learned from a table's training part (table_facts.h); NULL: this is not a table */
    struct clt_table *table;
    const char *description; /* one line: "idx: 60000 samples of (28,28) u8, labels 0..9, from ..." */
    void *state;
};

/* True if the number of different targets is so high that they are probably real values and not classes. */
static inline bool clt_source_hardly_repeats(int64_t distinct, int64_t samples)
{
    return distinct > 20 && distinct > samples / 4;
}

/* Makes an empty source without normalisation, for a format to fill. */
clt_status clt_source_create(const clt_source_type *type, clt_source **out);
/* clt_source_open: CLT_EDATA messages name the file (and byte offset or sample, where that helps), the
 * reason, and what to do. */
clt_status clt_source_open(const clt_config *config, clt_split split, clt_source **out);
clt_status clt_source_open_with(const clt_config *config, clt_split split, const clt_source_with *with,
                                clt_source **out);
/* A file, and the keys with which a config opens it as the training data. */
typedef struct clt_data_file {
    const clt_source_type *type;
    const char *path;
    const clt_shape *shape; /* shape of a sample; NULL: the file states it */
    int64_t context;        /* length of a sequence, 0: the data is not text */
    const char *tokenizer;  /* data.tokenizer, NULL: the data is not text */
} clt_data_file;
/* Makes a minimal config with this data. */
clt_status clt_data_file_config(const clt_data_file *file, clt_config **out);
/* The format that data.type of a checked config names. */
const clt_source_type *clt_source_type_of(const clt_config *config);
/* Checks a file with check_file of the format to which the ending of its name belongs. */
clt_status clt_source_check_file(const char *path, const char *tokenizer, clt_str *out);
/* True when the config names evaluation data (or a split of the training data). */
bool clt_source_has_eval(const clt_config *config);
void clt_source_close(clt_source *source);
CLT_SCOPED_POINTER(clt_source, clt_source_close)
const clt_source_type *const *clt_source_types(int *count);
/* Reads one field of a sample, with the random draw of evaluation. */
clt_status clt_source_read_field(const clt_source *source, int64_t index, int field, void *dst);
/* Number of elements of `field` in sample `index` that differ from `ignore`. `scratch`: room for one sample's
 * field. */
clt_status clt_source_count_valid(const clt_source *source, int64_t index, clt_draw draw, int field,
                                  int64_t ignore, void *scratch, int64_t *count);
/* Sums weights[value] over the elements of `field` in a sample; values outside [0, n) and `ignore` count as
 * 0. `scratch`: room for one sample's field. */
typedef struct clt_class_sum {
    const float *weights;
    int64_t n;
    bool has_ignore;
    int64_t ignore;
} clt_class_sum;
clt_status clt_source_sum_classes(const clt_source *source, int64_t index, clt_draw draw, int field,
                                  const clt_class_sum *classes, void *scratch, double *sum);
/* The same count and sum for `elements` values in memory. */
int64_t clt_count_valid(const void *values, clt_dtype dtype, int64_t elements, int64_t ignore);
double clt_sum_classes(const clt_class_sum *classes, const void *values, clt_dtype dtype, int64_t elements);
/* Element i of values of one of the types that sources have: u8, u16, i32 or f32. */
double clt_number_at(const void *values, clt_dtype dtype, int64_t i);
/* An implementation of `read` for formats whose fields are independent and not random. Reads the wanted
 * fields one by one. */
typedef clt_status (*clt_field_reader)(const clt_source *source, int64_t index, int field, void *dst);
clt_status clt_source_read_fields(const clt_source *source, int64_t index, void *const *to,
                                  clt_field_reader reader);
/* Bytes of one sample of a field. */
size_t clt_source_field_bytes(const clt_source_field *field);
/* Checks that every value of an index field is in [0, bound) or equals `ignore`; the message of CLT_EDATA
 * names file, sample and value. */
clt_status clt_source_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore);

/* Reads all data of the source once, with all checks: the work of `data verify`. */
clt_status clt_source_scan(const clt_source *source);

/* Fingerprint of the content as 16 hexadecimal digits, which does not depend on where the data is stored; ""
 * when the data has none (such as synthetic data, which follows from the config). The second function also
 * gives "" if data cannot be read; the next reader then reports why. */
clt_status clt_source_read_fingerprint(const clt_source *source, char text[CLT_HASH64_TEXT]);
const char *clt_source_fingerprint(const clt_source *source, char text[CLT_HASH64_TEXT]);

/* Index of the sample at `position` in the endless stream of samples. The epoch is position / n; the order
 * within an epoch is a keyed permutation if `shuffle` is set, else the order of indices. */
int64_t clt_sample_index(uint64_t position, int64_t n, uint64_t seed, bool shuffle);
/* The draw of the sample at that position. */
clt_draw clt_sample_draw(uint64_t position, int64_t n, uint64_t seed);
/* Index and draw of the sample at a position of a source's stream. If the source has groups (`together`),
 * clt_sample_index orders the groups. */
int64_t clt_source_sample(const clt_source *source, uint64_t position, uint64_t seed, bool shuffle,
                          clt_draw *draw);

/* The rows of a split: `count` of `rows` rows, from `begin` on. If data.split divides the rows between
 * training and evaluation, `begin` is a position in a permutation of the rows that depends only on their
 * number. */
typedef struct clt_split_part {
    int64_t begin, count, rows;
    bool divided;
} clt_split_part;
clt_split_part clt_split_choose(const clt_config *config, int64_t rows, bool divided, bool eval);
int64_t clt_split_row(const clt_split_part *part, int64_t sample);

/* A filled slot: one micro-batch of one rank. */
typedef struct clt_slot {
    void *data;           /* the caller's memory; holds each field at its offset */
    int64_t step;         /* batch number k */
    int32_t micro;        /* number in its step, 0 .. accumulation-1 */
    uint64_t sample_base; /* index of the first sample in the global batch */
    /* Number of samples that count, which come first in the slot. It is less than micro_batch only in the
     * last evaluation batch, and where an evaluation skips bad samples. */
    int64_t valid_samples;
    int64_t left_out; /* bad samples of this micro-batch that are skipped (evaluation) */
    /* For each loss, a number over the whole global batch: how many of its targets are not ignored or, if
     * its classes have weights, the sum of these targets' weights. */
    double normaliser[CLT_MAX_LOSSES];
    /* Evaluation, for losses with class weights: the sum of the weights of this micro-batch's targets. */
    double class_weights[CLT_MAX_LOSSES];
    double load_seconds;
    clt_error error; /* status != CLT_OK: loading failed, text says why */
    int32_t index;   /* which slot */
} clt_slot;

typedef struct clt_loader_options {
    clt_source *source;
    int n_fields;
    int source_field[CLT_MAX_FIELDS]; /* field of the source that fills graph field i */
    uint64_t offset[CLT_MAX_FIELDS];  /* offset of each field in a slot, in bytes */
    int64_t micro_batch, global_batch;
    /* Training: in each step this rank computes `accumulation` micro-batches from `first_micro` on. */
    int32_t accumulation;
    int64_t first_micro;
    int32_t rank, ranks; /* evaluation */
    uint64_t seed;
    bool shuffle;
    /* Evaluation: each sample once, in order. The last micro-batch is padded with copies of sample 0. Ranks
     * take micro-batches in turn. The normaliser of every loss is 1. clt_loader_next gives *slot = NULL at
     * the end. */
    bool evaluation;
    int64_t first_step, last_step; /* training: batches [first_step, last_step) */
    const clt_graph *graph;        /* its losses name the fields whose targets are counted */
    int workers;                   /* number of threads, at least 1 */
    int n_slots;                   /* >= 2 */
    void **slots;                  /* n_slots pieces of memory of slot_bytes each */
    uint64_t slot_bytes;
    struct clt_spans *spans; /* borrowed; threads record here what they do; NULL: they record nothing */
    /* Called while clt_loader_next waits; an error ends the wait. It is needed because a slot may never be
     * released: drivers may omit the callback of an upload that fails. NULL: not called. */
    clt_status (*check)(void *context);
    void *check_context;
} clt_loader_options;

typedef struct clt_loader clt_loader;
/* Number of workers for "auto": 75 % of the cores, divided by the ranks that share them, rounded up. So two
 * cores have two workers, which both decode; with only one, a core may wait for a kernel that the loader has
 * interrupted. */
int clt_loader_auto_workers(int core_ranks);
clt_status clt_loader_create(const clt_loader_options *options, clt_loader **out);
/* Ends and joins the threads; may be called at any moment. Slots may still be released until the loader is
 * destroyed. */
void clt_loader_stop(clt_loader *loader);
/* Stops and frees the loader. */
void clt_loader_destroy(clt_loader *loader);
/* Next micro-batch in order (blocks until it is filled); a slot with an error returns that error. *slot NULL
 * at the end. */
clt_status clt_loader_next(clt_loader *loader, clt_slot **slot);
/* Releases the slot for refilling; may be called from any thread. */
void clt_loader_release(clt_loader *loader, clt_slot *slot);
/* Seconds that the consumer has waited in clt_loader_next so far. */
double clt_loader_wait_seconds(const clt_loader *loader);

#endif
