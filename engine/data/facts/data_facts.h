/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the training data, collected when it was opened: shapes and types of its fields, classes,
 * vocabulary, counts, and a fingerprint of its content. A checkpoint keeps these facts as data.json, so
 * that generation, evaluation and prediction do not need the training data, and so that a resumed run can
 * recognise data that has moved. */
#ifndef ENGINE_DATA_FACTS_DATA_FACTS_H
#define ENGINE_DATA_FACTS_DATA_FACTS_H

#include "engine/base/hash.h"
#include "engine/base/scope.h"
#include "engine/data/data.h"
#include "engine/data/facts/table_facts.h"
#include "engine/json/json.h"

#define CLT_DATA_FACTS_FILE "data.json"

typedef struct clt_data_facts_field {
    char name[32]; /* "x", "y" */
    clt_dtype dtype;
    clt_shape shape; /* shape of one sample, without the batch dimension */
    bool is_index;
    int64_t max_value; /* is_index: largest value; -1: unknown */
} clt_data_facts_field;

typedef struct clt_data_facts {
    char type[32];         /* data.type */
    char description[512]; /* the source's description, one line for people */
    int64_t samples;
    int64_t bytes;  /* size of the raw data */
    int64_t tokens; /* number of tokens in the training part; 0: the data has no tokens */
    int n_fields;
    clt_data_facts_field fields[CLT_MAX_FIELDS];
    double scale, mean, std; /* normalisation of x, as in clt_source */
    int channels;            /* channels with their own mean and std; see clt_source */
    double channel_mean[CLT_MAX_NUMBERS], channel_std[CLT_MAX_NUMBERS];
    int64_t classes;       /* number of classes, when the target of a sample is a class; else 0 */
    int64_t n_class_names; /* 0: the classes have no names */
    clt_str class_names;   /* all names in a row, each with its final NUL */
    int64_t vocabulary;    /* number of the tokenizer's tokens; 0: there is no tokenizer */
    /* mean bytes of text per token in the training part; 0: unknown; 1 for the byte tokenizer */
    double bytes_per_token;
    char tokenizer[32];                     /* "bytes", "bpe" (tokenizer.json is beside data.json) or "" */
    uint64_t tokenizer_hash;                /* clt_tokenizer_hash; 0 without a tokenizer */
    char chat[32];                          /* the chat template of the samples; "": they have none */
    char fingerprint[CLT_HASH64_TEXT];      /* for the training data; "": unknown */
    char eval_fingerprint[CLT_HASH64_TEXT]; /* for the evaluation data; "": unknown, or no such data */
    /* hash of the list of objects (clt_data_paths_listed); "": no object storage */
    char listed[CLT_HASH64_TEXT];
    clt_table *table; /* facts of a table, in `arena`; NULL: the data is not a table */
    clt_arena *arena;
    /* The folder in which the training was started, to which relative paths of the config refer: its
     * absolute path, and its path relative to the run folder. "": unknown. */
    char folder[1024], folder_from_run[1024];
} clt_data_facts;

/* Fills in the facts from an open training source; `eval` may be NULL. The caller sets `listed` and the
 * fingerprints of remote data, since computing these downloads much of the data. The caller frees the facts,
 * even after a failure. */
clt_status clt_data_facts_take(const clt_source *train, const clt_source *eval, clt_data_facts *facts);
void clt_data_facts_free(clt_data_facts *facts);
CLT_SCOPED_VALUE(clt_data_facts, clt_data_facts_free)

/* The name of a class; NULL: it has none. */
const char *clt_data_facts_class(const clt_data_facts *facts, int64_t index);

/* Appends the text of data.json. */
clt_status clt_data_facts_print(const clt_data_facts *facts, clt_str *out);
/* Reads data.json. `source` is the file's name for messages. The message of CLT_ECHECKPOINT names the member
 * that is missing or wrong, or says that the format is newer. The caller frees the facts after a success. */
clt_status clt_data_facts_parse(const char *text, size_t length, const char *source, clt_data_facts *facts);
/* True if the text is a data.json of cltrain: JSON with its "format". */
bool clt_data_facts_ours(const char *text, size_t length);

/* A source with the fields of the training data but without readable samples: enough to build the model when
 * the data itself is missing. Close it with clt_source_close. `facts` is copied. */
clt_status clt_source_open_facts(const clt_data_facts *facts, clt_source **out);

/* Appends a few words for people: "idx data, (28,28) u8, 10 classes". */
void clt_data_facts_words(const clt_data_facts *facts, clt_str *out);

#endif
