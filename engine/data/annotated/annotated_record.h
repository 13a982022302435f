/* SPDX-License-Identifier: Apache-2.0
 *
 * An annotated text: a record with a text or two and a class or a number, with words and a label for each,
 * or with a question, a context and the answer in it; read and encoded. It knows nothing of files, windows
 * or numbers of classes. */
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
#define CLT_ANNOTATED_IGNORED (-100) /* the label in a record of a word without one, as transformers has it */

/* How records are read. */
typedef struct clt_annotated_rules {
    clt_annotated_task task;
    const clt_tokenizer *tokenizer;
    const char *text, *second,
        *label;        /* members of a record: the text or the words; the second text, or NULL */
    int64_t context;   /* tokens of a sample, [CLS] and [SEP] among them */
    int64_t stride;    /* span: tokens of the context that two windows share */
    bool truncate;     /* longer texts are cut; else they cannot be used */
    bool unanswerable; /* span: records without an answer are allowed */
    bool labelled;     /* records must have labels or answers; else these are not read */
} clt_annotated_rules;

typedef struct clt_annotated {
    char *why;       /* why it cannot be used, and nothing else is set; NULL: it can */
    clt_ids ids;     /* tokens of the first text, then of the second one */
    int64_t first;   /* tokens of the first text: of a question, for CLT_ANNOTATED_SPAN */
    int64_t cut;     /* tokens that were cut, since there were too many */
    clt_str text;    /* span: the context. words: each with its final NUL */
    clt_str id;      /* member "id", a text or a whole number, or "" */
    clt_str labels;  /* class: its name or number as text; words: one for each. Each with its final NUL */
    bool numbers;    /* the labels are numbers */
    float value;     /* number: the label */
    int64_t n_words; /* words */
    int32_t *label;  /* (n_words, or 1) filled in by the caller, who knows the numbers of the labels */
    int32_t *word;   /* words: (tokens) for the first token of a word its number, else CLT_ANNOTATED_NONE */
    /* span: */
    clt_token_ranges ranges; /* of the context's tokens, in `text` */
    /* the first and the last token of the context that the answer touches, or CLT_ANNOTATED_NONE */
    int64_t answer_first, answer_last;
    clt_str answers; /* all answers, each with its final NUL; none: it has no answer */
} clt_annotated;

/* Reads and encodes a record, an object of JSON. cells: it is a row of a table, whose numbers are texts.
 * CLT_EDATA, without the place in the file: why it cannot be used. `out` must be zero; the caller frees it,
 * also after a failure. */
clt_status clt_annotated_read(const clt_annotated_rules *rules, clt_encoder *encoder, const char *line,
                              size_t size, bool cells, clt_annotated *out);
/* True if a task is about a whole text, or a pair of texts. */
bool clt_annotated_whole(clt_annotated_task task);
void clt_annotated_free(clt_annotated *a);
/* Chooses rules->text, second and label, where they are NULL, by the members of a record: the first of the
 * usual names that it has. CLT_EDATA: none fits. */
clt_status clt_annotated_members(clt_annotated_rules *rules, const char *line, size_t size);
/* Tokens of the context that a window of a span record holds. */
int64_t clt_annotated_room(const clt_annotated_rules *rules, const clt_annotated *a);
/* Windows of a record: 1 unless it is a span whose context is longer than the room. */
int64_t clt_annotated_windows(const clt_annotated_rules *rules, const clt_annotated *a);
/* Cuts texts of n1 and n2 tokens to `room` tokens together, the longer one first, as the tokenizers library
 * does: *n1 and *n2 become what is left. */
void clt_annotated_cut(int64_t *n1, int64_t *n2, int64_t room);

#endif
