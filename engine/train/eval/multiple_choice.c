/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores the choices of all items: each choice is a row of tokens, and its score is the sum of the
 * log-probabilities of the choice's tokens. */
#include "engine/train/eval/multiple_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/models/models.h"
#include "engine/train/eval/choice_items.h"
#include "engine/train/run/run.h"

#define ROUND 16 /* rows are padded to a multiple of this number of tokens, so that few kernels are built */

/* --- a source with the shapes of the rows --- */

static clt_status read_nothing(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    for (int f = 0; f < source->n_fields; f++)
        if (to[f])
            memset(to[f], 0, clt_source_field_bytes(&source->fields[f]));
    return index < source->samples ? CLT_OK : CLT_EINTERNAL;
}

static const clt_config_part rows_format = {.name = "rows", .help = "rows of tokens of a task"};
static const clt_source_type rows_type = {.format = &rows_format, .read = read_nothing};

static clt_status open_shapes(const clt_tokenizer *tokenizer, int64_t length, int64_t rows, clt_source **out)
{
    int64_t most = (int64_t)clt_tokenizer_vocab(tokenizer) - 1;
    CLT_TRY(clt_source_create(&rows_type, out));
    (*out)->samples = rows;
    (*out)->description = "rows of tokens";
    (*out)->n_fields = 2;
    (*out)->fields[0] = (clt_source_field){"x", CLT_I32, clt_shape1(length), true, most};
    (*out)->fields[1] = (clt_source_field){"y", CLT_I32, clt_shape1(length), true, most};
    return CLT_OK;
}

/* --- scoring --- */

typedef struct scoring {
    const clt_choice_items *items;
    clt_run *run;
    int64_t length, micro, columns, vocab; /* tokens per row; rows at a time; logits, unpadded logits */
    int32_t x, y;                          /* tensors of the fields */
    int32_t *rows;                         /* (micro, length) */
    float *logits;                         /* (micro, length, columns) */
    double *score;                         /* (rows of all items) */
    int64_t cut;
} scoring;

static void free_scoring(scoring *s)
{
    clt_run_destroy(s->run);
    free(s->rows);
    free(s->logits);
    free(s->score);
}
CLT_SCOPED_VALUE(scoring, free_scoring)

/* The number of input tokens of a row. A row that is longer than the context loses its first tokens. */
static int64_t inputs_of(const scoring *s, const clt_choice_row *row)
{
    int64_t count = (int64_t)row->count - 1;
    return count < s->length ? count : s->length;
}

/* log(probability of `token`) from n logits. */
static double log_probability(const float *logits, int64_t n, uint32_t token)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, (double)logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - largest);
    return (double)logits[token] - largest - log(sum);
}

/* Adds up the row's log-probabilities from its logits. */
static double score_of(const scoring *s, const clt_choice_row *row, const float *logits)
{
    double sum = 0;
    int64_t inputs = inputs_of(s, row), scored = (int64_t)row->scored;
    const uint32_t *last = s->items->ids.id + row->begin + row->count;
    scored = scored < inputs ? scored : inputs;
    for (int64_t k = scored; k > 0; k--)
        sum += log_probability(logits + (inputs - k) * s->columns, s->vocab, last[-k]);
    return sum;
}

static clt_status score_rows(scoring *s, size_t first)
{
    size_t rows = s->items->n_rows - first < (size_t)s->micro ? s->items->n_rows - first : (size_t)s->micro;
    memset(s->rows, 0, (size_t)(s->micro * s->length) * sizeof *s->rows);
    for (size_t r = 0; r < rows; r++) {
        const clt_choice_row *row = &s->items->row[first + r];
        int64_t inputs = inputs_of(s, row);
        const uint32_t *from = s->items->ids.id + row->begin + row->count - 1 - (size_t)inputs;
        s->cut += inputs < (int64_t)row->count - 1;
        for (int64_t t = 0; t < inputs; t++)
            s->rows[(int64_t)r * s->length + t] = (int32_t)from[t];
    }
    CLT_TRY(clt_realized_write(s->run->eval, s->x, s->rows));
    CLT_TRY(clt_realized_write(s->run->eval, s->y, s->rows));
    CLT_TRY(clt_realized_run(s->run->eval, CLT_PHASE_FORWARD));
    CLT_TRY(clt_realized_read_f32(s->run->eval, s->run->job->prediction, s->logits));
    for (size_t r = 0; r < rows; r++)
        s->score[first + r] =
            score_of(s, &s->items->row[first + r], s->logits + (int64_t)r * s->length * s->columns);
    return CLT_OK;
}

/* Creates the device objects for rows of s->length tokens, and loads the parameters. */
static clt_status open_model(const clt_run_options *options, clt_source *shapes, scoring *s)
{
    clt_run_options run = *options;
    run.source = shapes;
    run.predicts = run.on_train = true;
    CLT_TRY(clt_run_create(&run, CLT_JOB_EVAL, &s->run));
    CLT_TRY(run.init ? clt_run_take_init(s->run)
                     : clt_run_load_saved(s->run, run.saved->checkpoint, run.saved->path));
    const clt_graph *graph = s->run->eval->plan->graph;
    clt_model_info info;
    CLT_TRY(clt_model_describe(graph, &info));
    s->x = graph->fields[clt_graph_find_field(graph, "x")].tensor;
    s->y = graph->fields[clt_graph_find_field(graph, "y")].tensor;
    s->micro = graph->micro_batch;
    s->columns = info.outputs;
    s->vocab = info.classes;
    CLT_TRY(clt_alloc(&s->rows, (size_t)(s->micro * s->length), sizeof *s->rows, "rows of a task"));
    CLT_TRY(clt_alloc(&s->score, s->items->n_rows, sizeof *s->score, "scores of a task"));
    return clt_alloc(&s->logits, (size_t)(s->micro * s->length * s->columns), sizeof *s->logits,
                     "logits of a task");
}

/* The first choice with the largest score; `normalised`: with the largest score per character. */
static int32_t choose(const scoring *s, const clt_choice_item *item, bool normalised)
{
    int32_t best = 0;
    double largest = -INFINITY;
    for (size_t i = 0; i < item->count; i++) {
        double score = s->score[item->first + i];
        score /= normalised ? s->items->row[item->first + i].characters : 1;
        if (score > largest) {
            largest = score;
            best = (int32_t)i;
        }
    }
    return best;
}

static clt_status choose_all(const scoring *s, clt_choices_result *result)
{
    size_t n = s->items->n_items;
    CLT_TRY(clt_alloc(&result->chosen, 2 * n, sizeof *result->chosen, "choices of a task"));
    result->items = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        const clt_choice_item *item = &s->items->item[i];
        result->chosen[i] = choose(s, item, false);
        result->chosen[n + i] = choose(s, item, true);
        result->right += result->chosen[i] == item->gold;
        result->right_normalised += result->chosen[n + i] == item->gold;
    }
    return CLT_OK;
}

void clt_choices_result_free(clt_choices_result *result)
{
    free(result->chosen);
    result->chosen = NULL;
}

static clt_status open_tokenizer(const clt_config *config, clt_tokenizer **out)
{
    if (!clt_model_family_of(config)->part->language)
        CLT_FAIL(CLT_EUSAGE, "--task: the model is not a language model (gpt, llama)");
    CLT_TRY(clt_tokenizer_open_config(config, out));
    if (!*out)
        CLT_FAIL(CLT_EUSAGE,
                 "--task needs the model's tokenizer; name it with --tokenizer, or in a CONFIG by "
                 "data.tokenizer");
    return CLT_OK;
}

clt_status clt_evaluate_choices(const clt_run_options *options, const char *task, const char *path,
                                int64_t most, clt_choices_result *result)
{
    CLT_SCOPED(clt_tokenizer) *tokenizer = NULL;
    CLT_SCOPED(clt_choice_items) items = {0};
    CLT_SCOPED(clt_source) *shapes = NULL;
    CLT_SCOPED(scoring) s = {.items = &items};
    double begin = clt_now();
    int64_t context = clt_config_int(options->config, "model.context");
    *result = (clt_choices_result){0};
    CLT_TRY(open_tokenizer(options->config, &tokenizer));
    CLT_TRY(clt_choices_read(task, path, most, tokenizer, &items));
    for (size_t i = 0; i < items.n_rows; i++)
        s.length = (int64_t)items.row[i].count > s.length ? (int64_t)items.row[i].count : s.length;
    s.length = (s.length - 1 + ROUND - 1) / ROUND * ROUND;
    s.length = context > 0 && context < s.length ? context : s.length;
    CLT_TRY(open_shapes(tokenizer, s.length, (int64_t)items.n_rows, &shapes));
    CLT_TRY(open_model(options, shapes, &s));
    for (size_t first = 0; first < items.n_rows; first += (size_t)s.micro)
        CLT_TRY(score_rows(&s, first));
    if (s.cut > 0)
        CLT_WARN("%lld of %zu rows of %s are longer than model.context %lld; their beginnings were cut off",
                 (long long)s.cut, items.n_rows, task, (long long)context);
    result->cut = s.cut;
    result->seconds = clt_now() - begin;
    return choose_all(&s, result);
}
