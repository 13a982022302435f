/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and encodes an annotated text. Its record has one or two texts with a class or a number, or words
 * with a label for each, or a question with a context that contains the answer. It knows nothing of files,
 * windows or class numbers. */
#ifndef ENGINE_DATA_ANNOTATED_ANNOTATED_RECORD_H
#define ENGINE_DATA_ANNOTATED_ANNOTATED_RECORD_H

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/json/json.h"

/* The words of data.task, in this order. */
#define CLT_ANNOTATED_TASKS "class|tokens|span|number"
typedef enum clt_annotated_task {
    CLT_ANNOTATED_CLASS, /* a class for each text, or pair of texts */
    CLT_ANNOTATED_WORDS, /* a label for each word */
    CLT_ANNOTATED_SPAN,  /* an answer that is a part of the context */
    CLT_ANNOTATED_NUMBER /* a number for each text, or pair of texts */
} clt_annotated_task;

#define CLT_ANNOTATED_NONE (-1)      /* no answer; no word; a word without a label */
#define CLT_ANNOTATED_IGNORED (-100) /* in a record: the label of a word that has none, as in transformers */

/* How records are read. */
typedef struct clt_annotated_rules {
    clt_annotated_task task;
    const clt_tokenizer *tokenizer;
    const char *text, *second, *label; /* members of a record: text or words; second text, or NULL; labels */
    int64_t context;                   /* tokens of a sample, [CLS] and [SEP] among them */
    int64_t stride;                    /* span: tokens of the context that two windows share */
    bool truncate;                     /* longer texts are cut; else they cannot be used */
    bool unanswerable;                 /* span: records without an answer are allowed */
    bool labelled; /* records must have labels or answers; else labels and answers are not read */
} clt_annotated_rules;

typedef struct clt_annotated {
    char *why;       /* why the record cannot be used (nothing else is set); NULL: it can be used */
    clt_ids ids;     /* tokens of the first text, then of the second one */
    int64_t first;   /* number of tokens of the first text, which for a span is the question */
    int64_t cut;     /* tokens that were cut, since there were too many */
    clt_str text;    /* span: the context; words: all words, each with its final NUL */
    clt_str id;      /* member "id", a text or a whole number, or "" */
    clt_str labels;  /* class: its name or number as text; words: a label for each; with final NULs */
    bool numbers;    /* the labels are numbers */
    float value;     /* number: the label */
    int64_t n_words; /* words */
    int32_t *label;  /* (n_words, or 1) numbers of the labels; filled in by the caller */
    int32_t *word;   /* words: (tokens) at a word's first token the word's number, else CLT_ANNOTATED_NONE */
    /* span: */
    clt_token_ranges ranges; /* ranges of the context's tokens in `text` */
    /* the first and the last token of the context that the answer touches, or CLT_ANNOTATED_NONE */
    int64_t answer_first, answer_last;
    clt_str answers; /* all answers, each with its final NUL; empty: there is no answer */
} clt_annotated;

/* Reads and encodes a record, a JSON object. `cells`: the record is a row of a table, whose numbers are
 * texts. CLT_EDATA says why the record cannot be used, without its place in the file. `out` must be zero; the
 * caller frees it, also after a failure. */
clt_status clt_annotated_read(const clt_annotated_rules *rules, clt_encoder *encoder, const char *line,
                              size_t size, bool cells, clt_annotated *out);
/* True if a task is about a whole text, or a pair of texts. */
bool clt_annotated_whole(clt_annotated_task task);
void clt_annotated_free(clt_annotated *a);
/* Sets each of rules->text, second and label that is NULL to the first of its usual names that is a member of
 * the record. CLT_EDATA: the record has none of these names. */
clt_status clt_annotated_members(clt_annotated_rules *rules, const char *line, size_t size);
/* Tokens of the context that a window of a span record holds. */
int64_t clt_annotated_room(const clt_annotated_rules *rules, const clt_annotated *a);
/* Number of windows of a record: 1 unless it is a span whose context is longer than clt_annotated_room. */
int64_t clt_annotated_windows(const clt_annotated_rules *rules, const clt_annotated *a);
/* Cuts texts of n1 and n2 tokens to `room` tokens together, the longer one first, as the tokenizers library
 * does: *n1 and *n2 become what is left. */
void clt_annotated_cut(int64_t *n1, int64_t *n2, int64_t room);

#endif
