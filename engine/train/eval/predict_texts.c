/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts classes, labels or answers for records of JSON Lines, one micro-batch of windows after the
 * other. */
#include "engine/train/eval/predict_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/eval/answers.h"

typedef struct texts_pass {
    clt_predictor *p;
    const clt_source *source;
    const clt_annotated_samples *samples;
    int field[CLT_MAX_FIELDS]; /* for each field of the source: the graph's field, or -1 */
    void *values[CLT_MAX_FIELDS];
    clt_answer answer; /* best answer for the record in the windows so far */
    float *scores;
    size_t scores_capacity;
    clt_text_tell tell;
    void *context;
} texts_pass;

static void free_pass(texts_pass *t)
{
    for (int f = 0; f < CLT_MAX_FIELDS; f++)
        free(t->values[f]);
    free(t->scores);
}
CLT_SCOPED_VALUE(texts_pass, free_pass)

/* The run's config with the file `path` as its data. */
static clt_status config_for(const clt_config *run, const char *path, clt_config **out)
{
    CLT_SCOPED(clt_str) file = {0};
    CLT_TRY(clt_config_override_text("data.path", path, &file));
    /* an unreadable record must not be skipped, since callers match predictions with records by their
     * count */
    const char *overrides[] = {file.text, "data.eval_path=[]", "data.split=0", "data.on_bad_sample=stop"};
    return clt_config_with(run, path, overrides, 4, out);
}

/* Replaces the key data.path, which the user has not given, by the file's name in the message of a
 * source. */
static clt_status name_file(clt_status status, const char *path)
{
    static const char key[] = "data.path";
    clt_error error;
    CLT_SCOPED(clt_str) text = {0};
    if (status == CLT_OK || !strstr(clt_error_text(), key))
        return clt_fail_prefix(status, "predicting");
    clt_error_take(status, &error);
    const char *at = error.text;
    for (const char *next; (next = strstr(at, key)); at = next + sizeof key - 1) {
        clt_str_append_n(&text, at, (size_t)(next - at));
        clt_str_printf(&text, "'%s'", path);
    }
    clt_str_append(&text, at);
    CLT_TRY(clt_str_check(&text));
    return clt_fail(status, __FILE__, __LINE__, "predicting: %s", text.text);
}

static clt_status begin(texts_pass *t)
{
    const clt_graph *graph = t->p->run->eval->plan->graph;
    for (int f = 0; f < t->source->n_fields; f++) {
        const clt_source_field *field = &t->source->fields[f];
        t->field[f] = clt_graph_find_field(graph, field->name);
        CLT_TRY(clt_alloc(&t->values[f], (size_t)t->p->micro_batch, clt_source_field_bytes(field), "texts"));
    }
    clt_answer_begin(&t->answer);
    return CLT_OK;
}

/* Computes `count` samples from number `first` on. */
static clt_status compute(texts_pass *t, int64_t first, int64_t count)
{
    const clt_realized *eval = t->p->run->eval;
    const clt_graph *graph = eval->plan->graph;
    for (int64_t i = 0; i < count; i++) {
        void *to[CLT_MAX_FIELDS] = {NULL};
        for (int f = 0; f < t->source->n_fields; f++)
            to[f] = (char *)t->values[f] + (size_t)i * clt_source_field_bytes(&t->source->fields[f]);
        CLT_TRY(t->source->type->read(t->source, first + i, (clt_draw){0}, to));
    }
    for (int f = 0; f < t->source->n_fields; f++)
        if (t->field[f] >= 0)
            CLT_TRY(clt_realized_write(eval, graph->fields[t->field[f]].tensor, t->values[f]));
    CLT_TRY(clt_realized_run(t->p->run->eval, CLT_PHASE_FORWARD));
    return clt_realized_read_f32(eval, t->p->run->job->prediction, t->p->y);
}

/* Sets t->scores to the probabilities of each word's classes. logits: (tokens of a row, classes). */
static clt_status score_words(texts_pass *t, const clt_annotated_place *place, const float *logits)
{
    const int64_t n = t->p->outputs, words = place->record->n_words;
    CLT_TRY(clt_grow(&t->scores, &t->scores_capacity, (size_t)(words * n), sizeof *t->scores, "predictions"));
    for (int64_t i = 0; i < words * n; i++)
        t->scores[i] = NAN;
    for (int64_t i = 0; i < place->tokens; i++) {
        int32_t word = place->record->word[i];
        if (word >= 0)
            clt_softmax(logits + (place->context + i) * t->p->padded, n, t->scores + word * n);
    }
    return CLT_OK;
}

/* Takes the result of sample number `index`; after a record's last window, passes the record's prediction to
 * the caller. */
static clt_status take(texts_pass *t, int64_t index, const float *y)
{
    const clt_annotated_samples *s = t->samples;
    clt_annotated_place place = clt_annotated_place_of(s, index);
    clt_text_prediction out = {.task = s->rules.task, .number = place.number, .record = place.record};
    bool last = index + 1 == s->n_windows || s->window[index + 1].record != place.number;
    switch (s->rules.task) {
    case CLT_ANNOTATED_CLASS:
        CLT_TRY(clt_grow(&t->scores, &t->scores_capacity, (size_t)t->p->outputs, sizeof *t->scores,
                         "predictions"));
        clt_softmax(y, t->p->outputs, t->scores);
        break;
    case CLT_ANNOTATED_NUMBER:
        CLT_TRY(clt_grow(&t->scores, &t->scores_capacity, 1, sizeof *t->scores, "predictions"));
        t->scores[0] = y[0];
        break;
    case CLT_ANNOTATED_WORDS:
        CLT_TRY(score_words(t, &place, y));
        break;
    default:
        clt_answer_take(&t->answer, &place, y, s->rules.context,
                        clt_config_int(t->p->saved->config, "data.answer_most"));
        clt_answer_text(&t->answer, place.record, s->rules.unanswerable, &out.answer, &out.answer_size);
        out.answer_score = out.answer_size ? t->answer.score : -INFINITY;
        if (last)
            clt_answer_begin(&t->answer);
    }
    out.scores = t->scores;
    return last ? t->tell(t->context, &out) : CLT_OK;
}

clt_status clt_predictor_texts(clt_predictor *p, const char *path, clt_text_tell tell, void *context)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_SCOPED(texts_pass) t = {.p = p, .tell = tell, .context = context};
    const clt_source_with with = {.facts = p->saved->has_facts ? &p->saved->facts : NULL};
    if (strcmp(path, "-") == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "predicting: this run predicts texts, which are not read from the standard input; "
                 "name a file of JSON Lines or a table of them (.jsonl, .csv, .tsv)");
    CLT_TRY(config_for(p->saved->config, path, &config));
    CLT_TRY(name_file(clt_source_open_with(config, CLT_SPLIT_INPUT, &with, &source), path));
    t.source = source;
    t.samples = clt_annotated_of(source);
    CLT_TRY(begin(&t));
    int64_t each = p->padded * p->rows;
    for (int64_t at = 0; at < source->samples; at += p->micro_batch) {
        int64_t count = source->samples - at < p->micro_batch ? source->samples - at : p->micro_batch;
        CLT_TRY(compute(&t, at, count));
        for (int64_t i = 0; i < count; i++)
            CLT_TRY(take(&t, at + i, p->y + i * each));
    }
    return CLT_OK;
}
