/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes predicted classes as predict_out.h does, and predicted labels and answers as JSON Lines. */
#include "cli/screen/predict_texts_out.h"

#include <math.h>
#include <string.h>

typedef struct texts_out {
    predict_out *out;
    const char *path;
} texts_out;

static void word_members(const clt_text_prediction *one, const clt_predictor *p, clt_json_writer *w)
{
    const char *word = one->record->text.text;
    clt_jw_karray(w, "words");
    for (int64_t i = 0; i < one->record->n_words; i++, word += strlen(word) + 1)
        clt_jw_string(w, word);
    clt_jw_end_array(w);
    clt_jw_karray(w, "labels");
    for (int64_t i = 0; i < one->record->n_words; i++) {
        const float *scores = one->scores + i * p->outputs;
        int64_t best = 0;
        for (int64_t c = 1; c < p->outputs; c++)
            best = scores[c] > scores[best] ? c : best;
        const char *name = clt_predictor_class(p, best);
        if (isnan(scores[best]))
            clt_jw_null(w);
        else if (name)
            clt_jw_string(w, name);
        else
            clt_jw_int(w, best);
    }
    clt_jw_end_array(w);
    clt_jw_karray(w, "probabilities");
    for (int64_t i = 0; i < one->record->n_words; i++) {
        const float *scores = one->scores + i * p->outputs;
        float most = scores[0];
        for (int64_t c = 1; c < p->outputs; c++)
            most = scores[c] > most ? scores[c] : most;
        clt_jw_float(w, most);
    }
    clt_jw_end_array(w);
}

static clt_status answer_members(const clt_text_prediction *one, clt_json_writer *w)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_append_n(&text, one->answer, one->answer_size);
    clt_str_append(&text, "");
    CLT_TRY(clt_str_check(&text));
    if (one->record->id.length)
        clt_jw_kstring(w, "id", one->record->id.text);
    clt_jw_kstring(w, "answer", text.text);
    clt_jw_kdouble(w, "score", one->answer_score);
    return CLT_OK;
}

/* Writes an answer as a member of SQuAD's object {id: answer}. */
static clt_status tell_answer(texts_out *t, const clt_text_prediction *one)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_str) line = {0};
    if (one->record->id.length == 0)
        CLT_FAIL(
            CLT_EDATA,
            "predicting '%s': record %lld has no \"id\", and the format json is {id: answer}; choose jsonl",
            t->path, (long long)one->number + 1);
    clt_str_append_n(&text, one->answer, one->answer_size);
    clt_str_append(&text, "");
    CLT_TRY(clt_str_check(&text));
    clt_json_writer w = clt_json_writer_make(&line, 0);
    clt_jw_string(&w, one->record->id.text);
    clt_str_append(&line, ": ");
    w = clt_json_writer_make(&line, 0);
    clt_jw_string(&w, text.text);
    CLT_TRY(clt_str_check(&line));
    return predict_out_line(t->out, &line);
}

/* Writes one record; classes and numbers go through predict_out_write. */
static clt_status tell(void *context, const clt_text_prediction *one)
{
    texts_out *t = context;
    CLT_SCOPED(clt_str) line = {0};
    if (clt_annotated_whole(one->task))
        return predict_out_write(t->out, t->path, one->scores, 1);
    if (t->out->format == PREDICT_JSON)
        return tell_answer(t, one);
    clt_json_writer w = clt_json_writer_make(&line, 0);
    clt_jw_object(&w);
    if (t->out->files)
        clt_jw_kstring(&w, "file", t->path);
    clt_jw_kint(&w, "sample", t->out->samples);
    if (one->task == CLT_ANNOTATED_WORDS)
        word_members(one, t->out->of, &w);
    else
        CLT_TRY(answer_members(one, &w));
    clt_jw_end_object(&w);
    clt_str_append(&line, "\n");
    CLT_TRY(clt_str_check(&line));
    return predict_out_line(t->out, &line);
}

clt_status predict_texts_write(predict_out *out, clt_predictor *p, const char *path)
{
    texts_out t = {out, path};
    return clt_predictor_texts(p, path, tell, &t);
}

clt_status predict_texts_format(const clt_predictor *p, const char *given, predict_out *out)
{
    int64_t task = clt_config_choice(p->saved->config, "data.task");
    if (out->format == PREDICT_JSON && task != CLT_ANNOTATED_SPAN)
        CLT_FAIL(CLT_EUSAGE, PREDICT_JSON_SPANS);
    if (clt_annotated_whole((clt_annotated_task)task) || out->format == PREDICT_JSON)
        return CLT_OK;
    if (out->top)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: --top-k is for classes of texts");
    if ((given || out->path) && out->format != PREDICT_JSONL)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain predict: labels of words and answers are written as jsonl, answers also as json");
    out->format = PREDICT_JSONL;
    return CLT_OK;
}
