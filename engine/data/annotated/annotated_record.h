/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and encodes an annotated text. Its record has one or two texts with a class or a number, or words
 * with a label for each, or a question with a context that contains the answer. It knows nothing of files,
 * windows or class numbers. */
#ifndef ENGINE_DATA_ANNOTATED_ANNOTATED_RECORD_H
#define ENGINE_DATA_ANNOTATED_ANNOTATED_RECORD_H

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/json/json.h"

/* The values of data.task, in the same order as its words. */
#define CLT_ANNOTATED_TASKS "class|tokens|span|number"
typedef enum clt_annotated_task {
    CLT_ANNOTATED_CLASS, /* a class for each text, or pair of texts */
    CLT_ANNOTATED_WORDS, /* a label for each word */
    CLT_ANNOTATED_SPAN,  /* an answer that is a part of the context */
    CLT_ANNOTATED_NUMBER /* a number for each text, or pair of texts */
} clt_annotated_task;

#define CLT_ANNOTATED_NONE (-1)      /* in place of an answer, a word or a label that does not exist */
#define CLT_ANNOTATED_IGNORED (-100) /* a label in a record that means "no label", as in transformers */

/* How records are read. */
typedef struct clt_annotated_rules {
    clt_annotated_task task;
    const clt_tokenizer *tokenizer;
    const char *text, *second, *label; /* members' names: text or words; second text or NULL; labels */
    int64_t context;                   /* tokens of a sample, including [CLS] and [SEP] */
    int64_t stride;                    /* span: tokens of the context that two windows share */
    bool truncate;                     /* texts that are too long are cut; false: they are refused */
    bool unanswerable;                 /* span: records without an answer are allowed */
    bool labelled;                     /* records must have labels or answers; false: these are not read */
} clt_annotated_rules;

typedef struct clt_annotated {
    char *why;       /* why the record cannot be used (nothing else is set); NULL: it can be used */
    clt_ids ids;     /* tokens of the first text, then of the second one */
    int64_t first;   /* number of tokens of the first text, which for a span is the question */
    int64_t cut;     /* number of tokens that were cut */
    clt_str text;    /* span: the context; words: all words, each with its final NUL */
    clt_str id;      /* member "id" (a text or a whole number); "": there is none */
    clt_str labels;  /* class: its name or number; words: a label for each; each text has its final NUL */
    bool numbers;    /* the labels are numbers */
    float value;     /* number: the label */
    int64_t n_words; /* words */
    int32_t *label;  /* (n_words, or 1) numbers of the labels, which the caller fills in */
    int32_t *word;   /* words: (tokens) the word that begins at this token, else CLT_ANNOTATED_NONE */
    /* span: */
    clt_token_ranges ranges; /* ranges of the context's tokens in `text` */
    /* the first and the last token of the context that the answer touches, or CLT_ANNOTATED_NONE */
    int64_t answer_first, answer_last;
    clt_str answers; /* all answers, each with its final NUL; empty: there is no answer */
} clt_annotated;

/* Reads and encodes a record, a JSON object. `cells`: the record is a row of a table, in which numbers are
 * texts. The message of CLT_EDATA says why the record cannot be used, but not where it is. `out` must be
 * zero; the caller frees it, also after a failure. */
clt_status clt_annotated_read(const clt_annotated_rules *rules, clt_encoder *encoder, const char *line,
                              size_t size, bool cells, clt_annotated *out);
/* True if a task is about a whole text, or a pair of texts. */
bool clt_annotated_whole(clt_annotated_task task);
void clt_annotated_free(clt_annotated *a);
/* Finds names of members: if rules->text, second or label is NULL, sets it to the first of its usual names
 * that the record has. CLT_EDATA: the record has none of the usual names of its text or, with `labelled`, of
 * its labels. For spans the names are fixed, and nothing is done. */
clt_status clt_annotated_members(clt_annotated_rules *rules, const char *line, size_t size);
/* Tokens of the context that a window of a span record holds. */
int64_t clt_annotated_room(const clt_annotated_rules *rules, const clt_annotated *a);
/* Number of windows of a record: 1 unless it is a span whose context is longer than clt_annotated_room. */
int64_t clt_annotated_windows(const clt_annotated_rules *rules, const clt_annotated *a);
/* Cuts texts of n1 and n2 tokens to `room` tokens together, the longer one first, as the tokenizers library
 * does. *n1 and *n2 become the lengths that remain. */
void clt_annotated_cut(int64_t *n1, int64_t *n2, int64_t room);

#endif
