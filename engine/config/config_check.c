/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the rules between keys. They use values, never where a value came from, so that a printed config,
 * which names every key, passes the same checks. Knows nothing of data, devices or graphs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/choices.h"
#include "engine/config/config_internal.h"

typedef clt_config_rules rules;

static bool usable(const rules *r, const char *key)
{
    return clt_rules_usable(r, key);
}

static const clt_config_value *get(const rules *r, const char *key)
{
    return clt_config_at(r->config, key);
}

/* `choice`: an enumerator of choices.h. */
static bool is(const rules *r, const char *key, int choice)
{
    return usable(r, key) && clt_config_choice(r->config, key) == choice;
}

static void broken(rules *r, const char *key, const char *what)
{
    clt_rules_broken(r, key, "%s", what);
}

static void check_data(rules *r)
{
    int64_t micro = get(r, "data.micro_batch")->i, global = get(r, "data.global_batch")->i;
    if (usable(r, "data.micro_batch") && usable(r, "data.global_batch") && micro > 0 && global % micro != 0)
        broken(r, "data.global_batch", "must be a multiple of data.micro_batch");
}

static void check_schedule(rules *r)
{
    int64_t steps = get(r, "train.steps")->i, horizon = get(r, "schedule.horizon")->i;
    int64_t warmup = get(r, "schedule.warmup")->i, decay = get(r, "schedule.decay_steps")->i;
    bool lengths = usable(r, "train.steps") && usable(r, "schedule.horizon") &&
                   usable(r, "schedule.warmup") && usable(r, "schedule.decay_steps");
    /* 0: the length follows from train.epochs and the size of the data, which is unknown here */
    int64_t length = horizon > 0 ? horizon : steps;
    if (usable(r, "schedule.min_learning_rate") && usable(r, "optimizer.learning_rate") &&
        get(r, "schedule.min_learning_rate")->f > get(r, "optimizer.learning_rate")->f)
        broken(r, "schedule.min_learning_rate", "must not be above optimizer.learning_rate");
    if (is(r, "schedule.type", CLT_SCHEDULE_STEP) && usable(r, "schedule.step_every") &&
        get(r, "schedule.step_every")->i == 0)
        broken(r, "schedule.step_every", "required (at least 1) when schedule.type is step");
    if (lengths && length > 0 && warmup > length)
        clt_rules_broken(r, "schedule.warmup",
                         "must not be longer than the schedule: it is %lld, and %s is %lld; a tenth of that "
                         "is usual",
                         (long long)warmup, horizon > 0 ? "schedule.horizon" : "train.steps",
                         (long long)length);
    if (lengths && length > 0 && is(r, "schedule.type", CLT_SCHEDULE_WSD) && warmup <= length &&
        decay > length - warmup)
        broken(r, "schedule.decay_steps", "warm-up and final decay together are longer than the schedule");
}

/* True if a number differs from the key's default. Values are compared, instead of checking whether the key
 * is set, because resolved configs write every key. */
static bool differs(const rules *r, const char *key)
{
    const clt_config_value *value = get(r, key);
    for (int i = 0; clt_config_schema()[i].path; i++)
        if (strcmp(clt_config_schema()[i].path, key) == 0)
            return fabs((clt_config_schema()[i].type == CLT_CFG_INT ? (double)value->i : value->f) -
                        strtod(clt_config_schema()[i].default_text, NULL)) > 0;
    return false;
}

static void check_precision(rules *r)
{
    static const char *const keys[] = {"precision.loss_scale", "precision.growth",
                                       "precision.growth_interval", "precision.backoff",
                                       "precision.min_loss_scale"};
    bool f32 = is(r, "precision.mode", CLT_PRECISION_F32);
    bool off =
        is(r, "precision.loss_scaling", CLT_SCALING_OFF) ||
        (is(r, "precision.mode", CLT_PRECISION_BF16) && is(r, "precision.loss_scaling", CLT_SCALING_AUTO));
    bool scales = is(r, "precision.loss_scaling", CLT_SCALING_STATIC) ||
                  is(r, "precision.loss_scaling", CLT_SCALING_DYNAMIC);
    if (f32 && scales)
        broken(r, "precision.loss_scaling",
               "f32 gradients need no loss scaling: set precision.mode f16 or bf16");
    for (int i = 0; i < 5; i++) {
        bool given = usable(r, keys[i]) && differs(r, keys[i]);
        if (given && f32)
            broken(r, keys[i], "only with precision.mode f16 or bf16");
        else if (given && off)
            broken(r, keys[i], "precision.loss_scaling is off (with bf16 unless it says static or dynamic)");
        else if (given && i > 0 && is(r, "precision.loss_scaling", CLT_SCALING_STATIC))
            broken(r, keys[i], "only for dynamic loss scaling");
    }
    if (usable(r, keys[0]) && usable(r, keys[4]) && get(r, keys[4])->f > get(r, keys[0])->f)
        broken(r, keys[4], "must not be above precision.loss_scale");
}

/* Gradients that ranks exchange as f16 become 0 below 6e-8, so they need loss scaling. */
static void check_parallel(rules *r)
{
    bool half = is(r, "precision.mode", CLT_PRECISION_F16),
         either = half || is(r, "precision.mode", CLT_PRECISION_BF16);
    bool scaled = is(r, "precision.loss_scaling", CLT_SCALING_STATIC) ||
                  is(r, "precision.loss_scaling", CLT_SCALING_DYNAMIC) ||
                  (half && is(r, "precision.loss_scaling", CLT_SCALING_AUTO));
    bool known = usable(r, "precision.mode") && usable(r, "precision.loss_scaling");
    bool invariant = usable(r, "parallel.rank_invariant") && get(r, "parallel.rank_invariant")->b;
    if (invariant && is(r, "parallel.embeddings", CLT_EMBEDDINGS_ROWS))
        broken(r, "parallel.embeddings",
               "rows cannot be added up as a tree of micro-batches, which parallel.rank_invariant needs");
    if (invariant && usable(r, "parallel.gradients") && !is(r, "parallel.gradients", CLT_GRADIENTS_F32))
        broken(
            r, "parallel.gradients",
            "must be f32 with parallel.rank_invariant: 16 bits round once more where there are more ranks");
    if (invariant && usable(r, "parallel.sync_batch_norm") && get(r, "parallel.sync_batch_norm")->b)
        broken(
            r, "parallel.sync_batch_norm",
            "the samples that batch_norm normalises together depend on the number of ranks, so that results "
            "cannot be the same with every number, as parallel.rank_invariant promises: turn one of the two "
            "off");
    if (is(r, "parallel.gradients", CLT_GRADIENTS_F16) && known && !(either && scaled))
        broken(r, "parallel.gradients",
               "f16 loses small gradients unless the loss is scaled: set precision.mode f16, or bf16 with "
               "precision.loss_scaling dynamic, or take bf16 here");
}

static void check_evaluations(rules *r)
{
    if (usable(r, "train.early_stop_evals") && get(r, "train.early_stop_evals")->i > 0 &&
        usable(r, "train.eval_every") && get(r, "train.eval_every")->i == 0)
        broken(r, "train.early_stop_evals", "needs evaluations during the training: set train.eval_every");
}

static void check_log(rules *r)
{
    if (usable(r, "log.sample_every") && get(r, "log.sample_every")->i > 0 && usable(r, "model.type") &&
        !clt_config_chosen(r->config, "model.type")->language)
        broken(r, "log.sample_every", "only a language model (gpt) writes texts");
    if (usable(r, "log.histograms") && get(r, "log.histograms")->i > 0 && usable(r, "log.tensorboard") &&
        !get(r, "log.tensorboard")->b)
        broken(r, "log.histograms",
               "they go into TensorBoard's event file: set log.tensorboard true as well");
}

#define MOST_TAGS 50
#define MOST_PASSED 100
#define TAG_BYTES 200
#define CURRENCY_BYTES 16

/* Checks the user's labels, which tables and pages show: they must not contain characters that could steer a
 * terminal. */
static bool is_label(const char *text, size_t most)
{
    size_t length = strlen(text);
    return length <= most && clt_text_plain(text) == length;
}

static void check_cost(rules *r)
{
    const clt_config_value *tags = get(r, "cost.tags"), *currency = get(r, "cost.currency");
    bool fine = usable(r, "cost.tags") && tags->count <= MOST_TAGS;
    if (usable(r, "cost.currency") && !is_label(currency->s, CURRENCY_BYTES))
        broken(r, "cost.currency", "must be at most 16 bytes of text without control characters");
    for (int i = 0; fine && i < tags->count; i++)
        fine = is_label(tags->strings[i], TAG_BYTES);
    if (usable(r, "cost.tags") && !fine)
        broken(r, "cost.tags",
               "must be at most 50 texts of at most 200 bytes each, without control characters");
}

static bool is_variable_name(const char *text)
{
    size_t letters = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return text[0] && !text[letters] && !(text[0] >= '0' && text[0] <= '9');
}

static void check_hooks(rules *r)
{
    const clt_config_value *pass = get(r, "hooks.pass");
    bool fine = usable(r, "hooks.pass") && pass->count <= MOST_PASSED;
    for (int i = 0; fine && i < pass->count; i++)
        fine = is_variable_name(pass->strings[i]) && strncmp(pass->strings[i], "CLTRAIN_", 8) != 0;
    if (usable(r, "hooks.pass") && !fine)
        broken(r, "hooks.pass",
               "must be at most 100 names of environment variables, none of which begins with CLTRAIN_");
}

static bool is_address(const char *text)
{
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

static void check_cloud(rules *r)
{
    static const char *const addresses[] = {"cloud.notice_url", "cloud.endpoint"};
    for (int i = 0; i < 2; i++)
        if (usable(r, addresses[i]) && get(r, addresses[i])->s[0] && !is_address(get(r, addresses[i])->s))
            broken(r, addresses[i], "must begin with http:// or https://");
    for (int i = 0; i < 2; i++)
        if (usable(r, addresses[i]) && strlen(get(r, addresses[i])->s) > 2000)
            broken(r, addresses[i], "must be at most 2000 bytes long");
    const bool file = clt_rules_is(r, "cloud.provider", "file"),
               url = clt_rules_is(r, "cloud.provider", "url");
    if (url && usable(r, "cloud.notice_file") && get(r, "cloud.notice_file")->s[0])
        broken(r, "cloud.notice_file",
               "is not looked at with cloud.provider=url, which asks nobody else: set it to auto or off");
    if (file && usable(r, "cloud.notice_url") && get(r, "cloud.notice_url")->s[0])
        broken(r, "cloud.notice_url",
               "is not asked with cloud.provider=file, which asks nobody else: set it to auto or off");
    if (clt_rules_is(r, "cloud.provider", "file") && clt_rules_empty(r, "cloud.notice_file"))
        broken(r, "cloud.provider", "file needs cloud.notice_file");
    if (clt_rules_is(r, "cloud.provider", "url") && clt_rules_empty(r, "cloud.notice_url"))
        broken(r, "cloud.provider", "url needs cloud.notice_url");
}

static void check_required(rules *r)
{
    for (int i = 0; clt_config_schema()[i].path; i++) {
        const clt_config_key *key = &clt_config_schema()[i];
        if (!r->config->values[i].present)
            clt_config_report(r->list, r->config->source, 0, 0, "%s: required but missing; valid: %s%s",
                              key->path, key->choices ? key->choices : key->help,
                              strcmp(key->path, "model.type") == 0
                                  ? "; or start from weights that say it: --init FOLDER, or model.init"
                                  : "");
    }
}

void clt_config_check_rules(const clt_config *config, clt_config_problems *list)
{
    rules r = {config, list};
    check_required(&r);
    check_data(&r);
    clt_config_check_parts(&r);
    check_schedule(&r);
    check_precision(&r);
    check_parallel(&r);
    check_evaluations(&r);
    check_log(&r);
    check_cost(&r);
    check_cloud(&r);
    check_hooks(&r);
}

clt_status clt_config_check(const clt_config *config)
{
    clt_config_problems list = {0};
    clt_config_check_rules(config, &list);
    return clt_config_problems_finish(CLT_OK, &list);
}
