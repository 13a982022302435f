/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the best answer of each record during an evaluation, and counts matches and F1 at its end. Several
 * ranks may evaluate the windows of one record, so the ranks combine their answers. */
#include "engine/train/eval/eval_answers.h"

#include <math.h>
#include <stdlib.h>

#include "engine/train/eval/answers.h"

#define MOST_TOKENS 4294967296.0 /* more tokens than any context has */

struct clt_answer_reader {
    int32_t logits; /* tensor, (samples, 2, context) */
    float *values;
    clt_answer *best; /* (records) */
    int64_t records;
};

clt_status clt_eval_answers_prepare(clt_run *run)
{
    clt_job *job = run->job;
    bool evaluates = job->kind == CLT_JOB_TRAIN || job->kind == CLT_JOB_EVAL;
    if (!evaluates || !job->eval_source || !clt_annotated_spans(job->config) ||
        job->eval_source->type != &clt_source_annotated)
        return CLT_OK;
    CLT_TRY(clt_alloc(&run->answers, 1, sizeof *run->answers, "answers"));
    job->predicts = true;
    return CLT_OK;
}

clt_status clt_eval_answers_begin(clt_run *run)
{
    struct clt_answer_reader *r = run->answers;
    if (!r)
        return CLT_OK;
    const clt_graph *graph = run->job->model;
    r->logits = graph->nodes[graph->losses[0].node]->in[0];
    r->records = clt_annotated_of(run->job->eval_source)->part.count;
    size_t all = (size_t)clt_shape_elements(&clt_graph_tensor(graph, r->logits)->shape);
    if (!r->values) /* with data.micro_batch auto the size is known only now */
        CLT_TRY(clt_alloc(&r->values, all, sizeof *r->values, "predictions"));
    if (!r->best)
        CLT_TRY(clt_alloc(&r->best, (size_t)r->records, sizeof *r->best, "answers"));
    for (int64_t i = 0; i < r->records; i++)
        clt_answer_begin(&r->best[i]);
    return CLT_OK;
}

clt_status clt_eval_answers_take(clt_run *run, int64_t first, int64_t count)
{
    struct clt_answer_reader *r = run->answers;
    if (!r)
        return CLT_OK;
    const clt_annotated_samples *s = clt_annotated_of(run->job->eval_source);
    int64_t most = clt_config_int(run->job->config, "data.answer_most"), context = s->rules.context;
    CLT_TRY(clt_realized_read_f32(run->eval, r->logits, r->values));
    for (int64_t i = 0; i < count; i++) {
        clt_annotated_place p = clt_annotated_place_of(s, first + i);
        clt_answer_take(&r->best[p.number], &p, r->values + i * 2 * context, context, most);
    }
    return CLT_OK;
}

/* Replaces the answers of this rank by the best answers of all ranks. */
static clt_status join_ranks(clt_run *run, struct clt_answer_reader *r)
{
    comm *group = run->options->comm;
    CLT_FREED double *score = NULL;
    CLT_FREED double *place = NULL; /* per record: first and last token in one number, or -1 if another
                                     * rank's answer is better; then -none */
    CLT_TRY(clt_alloc(&score, (size_t)r->records, sizeof *score, "answers"));
    CLT_TRY(clt_alloc(&place, (size_t)r->records * 2, sizeof *place, "answers"));
    for (int64_t i = 0; i < r->records; i++)
        score[i] = r->best[i].score;
    CLT_TRY(comm_all_reduce(group, score, r->records, COMM_F64, COMM_MAX));
    for (int64_t i = 0; i < r->records; i++) {
        bool mine = r->best[i].first >= 0 && r->best[i].score >= score[i];
        place[i * 2] = mine ? (double)r->best[i].first * MOST_TOKENS + (double)r->best[i].last : -1;
        place[i * 2 + 1] = -r->best[i].none;
    }
    CLT_TRY(comm_all_reduce(group, place, r->records * 2, COMM_F64, COMM_MAX));
    for (int64_t i = 0; i < r->records; i++) {
        double first = floor(place[i * 2] / MOST_TOKENS); /* -1: no rank has an answer for the record */
        double last = place[i * 2] - first * MOST_TOKENS;
        r->best[i] = (clt_answer){score[i], -place[i * 2 + 1], (int64_t)first, (int64_t)last};
    }
    return CLT_OK;
}

clt_status clt_eval_answers_end(clt_run *run, clt_eval_metrics *m)
{
    struct clt_answer_reader *r = run->answers;
    double exact = 0, f1 = 0;
    if (!r)
        return CLT_OK;
    const clt_annotated_samples *s = clt_annotated_of(run->job->eval_source);
    if (run->ranks.ranks > 1)
        CLT_TRY(join_ranks(run, r));
    for (int64_t i = 0; i < r->records; i++) {
        const char *text;
        size_t size;
        double one_exact, one_f1;
        if (r->best[i].first < 0) /* the record is unusable, or train.eval_batches skipped it */
            continue;
        clt_answer_text(&r->best[i], &s->record[i], s->rules.unanswerable, &text, &size);
        CLT_TRY(clt_answer_compare(text, size, &s->record[i], &one_exact, &one_f1));
        exact += one_exact;
        f1 += one_f1;
        m->answers++;
    }
    m->exact = m->answers ? exact / (double)m->answers : NAN;
    m->answer_f1 = m->answers ? f1 / (double)m->answers : NAN;
    return CLT_OK;
}

void clt_eval_answers_free(clt_run *run)
{
    if (!run->answers)
        return;
    free(run->answers->values);
    free(run->answers->best);
    free(run->answers);
    run->answers = NULL;
}
