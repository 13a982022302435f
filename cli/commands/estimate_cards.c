/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the lists of cards and prices, plans for each card, and writes the table. */
#include "cli/commands/estimate_cards.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/report/read/run_cost.h"
#include "engine/train/inspect/cards.h"

#define MOST_CARDS 16
#define MOST_PRICE 1e9

typedef struct card_row {
    const clt_card *card;
    double price; /* price per hour; NAN: not given */
    uint64_t usable;
    /* bytes that the run needs; 0: no plan is possible, because the parameters or a single tensor far exceed
     * the card's memory */
    uint64_t needed;
    int64_t micro_batch, largest, global_batch;
    int64_t steps; /* 0: unknown, since train.epochs counts passes over data that this machine lacks */
    bool fits;
    double step_s, seconds, cost; /* NAN: the training does not fit, or the price is unknown */
} card_row;

typedef struct estimation {
    const clt_config *config;
    const estimate_cards_options *options;
    card_row row[MOST_CARDS];
    int count;
} estimation;

static card_row *row_of(estimation *e, const clt_card *card)
{
    for (int i = 0; i < e->count; i++)
        if (e->row[i].card == card)
            return &e->row[i];
    return NULL;
}

static clt_status read_cards(estimation *e, const char *list)
{
    const clt_card *card;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        CLT_TRY(clt_card_find(at, length, &card));
        if (row_of(e, card))
            CLT_FAIL(CLT_EUSAGE, "cltrain estimate: --for names %s twice", card->name);
        if (e->count == MOST_CARDS)
            CLT_FAIL(CLT_EUSAGE, "cltrain estimate: --for takes at most %d cards", MOST_CARDS);
        e->row[e->count++] = (card_row){.card = card, .price = NAN};
        at += length;
        if (!*at)
            return CLT_OK;
    }
}

static clt_status read_prices(estimation *e, const char *list)
{
    const clt_card *card;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",="), all = strcspn(at, ",");
        char *end = NULL;
        double price = at[length] == '=' ? clt_strtod(at + length + 1, &end) : NAN;
        if (end != at + all || all == length + 1 || !(price >= 0 && price <= MOST_PRICE))
            CLT_FAIL(CLT_EUSAGE,
                     "cltrain estimate: '%.*s' of --price is not CARD=PRICE with a number from 0 to %g",
                     (int)(all < 60 ? all : 60), at, MOST_PRICE);
        CLT_TRY(clt_card_find(at, length, &card));
        card_row *row = row_of(e, card);
        if (!row)
            CLT_FAIL(CLT_EUSAGE, "cltrain estimate: --price names %s, which --for lacks; add it to --for",
                     card->name);
        row->price = price;
        at += all;
        if (!*at)
            return CLT_OK;
    }
}

static clt_status plan(const estimation *e, card_row *row)
{
    CLT_SCOPED(clt_description) *d = NULL;
    ocl_device_desc device = clt_card_device(row->card);
    row->usable = device.usable_bytes;
    row->step_s = row->seconds = row->cost = NAN;
    clt_status status = clt_describe_planned(e->config, &device, e->options->caps, e->options->ranks, &d);
    if (status == CLT_EDEVMEM) { /* other cards may be large enough */
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    row->needed = d->memory.total;
    row->fits = row->needed <= row->usable;
    row->largest = d->largest;
    row->micro_batch = d->job->micro_batch;
    row->global_batch = d->job->global_batch;
    bool counted = !d->job->data_missing[0] || clt_config_int(e->config, "train.steps") > 0;
    row->steps = counted ? d->job->steps : 0;
    row->step_s = row->fits ? clt_card_step(row->card, d, e->options->reach / 100) : NAN;
    row->seconds = counted ? row->step_s * (double)row->steps : NAN;
    row->cost = row->seconds / 3600 * row->price * e->options->ranks;
    return CLT_OK;
}

/* --- output --- */

static void put_row(const estimation *e, const table *t, const card_row *row, clt_str *out)
{
    char needed[32], usable[32], fits[64], micro[32] = "-", step[32] = "-", time[32] = "-";
    char money[2][CLT_MONEY_TEXT] = {"-", "-"};
    const char *currency = clt_config_string(e->config, "cost.currency");
    snprintf(needed, sizeof needed, "far more");
    if (row->needed > 0)
        console_bytes(row->needed, needed, sizeof needed);
    console_bytes(row->usable, usable, sizeof usable);
    if (row->fits)
        snprintf(fits, sizeof fits, "yes");
    else if (row->largest > 0)
        snprintf(fits, sizeof fits, "no, micro-batch %lld would", (long long)row->largest);
    else
        snprintf(fits, sizeof fits, "no");
    if (row->micro_batch > 0)
        snprintf(micro, sizeof micro, "%lld", (long long)row->micro_batch);
    if (row->fits) {
        bool brief = row->step_s < 1;
        snprintf(step, sizeof step, "%.3g %s", row->step_s * (brief ? 1e3 : 1), brief ? "ms" : "s");
    }
    if (!isnan(row->seconds))
        console_time(row->seconds, time, sizeof time);
    if (!isnan(row->price))
        clt_money_text(row->price, "", money[0]);
    if (!isnan(row->cost))
        clt_money_text(row->cost, currency, money[1]);
    const char *const cells[] = {row->card->name, needed,  usable, fits, micro, step, time,
                                 money[0],        money[1]};
    table_row(t, cells, out);
}

static void put_note(const estimation *e, int screen, clt_str *out)
{
    char note[480], steps[128] = "";
    bool equal = true; /* with data.micro_batch auto the number of steps may depend on the card */
    bool unknown = false;
    for (int i = 0; i < e->count; i++) {
        equal = equal && e->row[i].steps == e->row[0].steps;
        unknown = unknown || (e->row[i].needed > 0 && e->row[i].steps == 0);
    }
    if (unknown)
        snprintf(steps, sizeof steps,
                 "; the data are not on this machine, so the number of steps is not known: give train.steps");
    else if (equal && e->row[0].steps > 0)
        snprintf(steps, sizeof steps, "; %lld step%s", (long long)e->row[0].steps,
                 CLT_PLURAL(e->row[0].steps));
    snprintf(note, sizeof note,
             "planned, not measured: from data sheets; a step is assumed to reach %g %% of their limits "
             "(--reach)%s; start-up, evaluations, checkpoints%s are not counted",
             e->options->reach, steps, e->options->ranks > 1 ? " and communication between ranks" : "");
    text_wrap(note, 0, 0, screen, out);
}

static clt_status print_table(const estimation *e)
{
    static const table_column columns[] = {
        {"card", 9, 0, 0, false},     {"needs", 9, 0, 3, true},        {"has", 9, 0, 3, true},
        {"fits", 4, 0, 0, false},     {"micro-batch", 11, 0, 2, true}, {"step", 8, 0, 2, true},
        {"whole run", 9, 0, 0, true}, {"an hour", 7, 0, 1, true},      {"cost", 8, 0, 0, true}};
    CLT_SCOPED(clt_str) out = {0};
    table t;
    int screen = terminal_columns();
    table_make(&t, columns, sizeof columns / sizeof columns[0], screen);
    table_head(&t, &out);
    for (int i = 0; i < e->count; i++)
        put_row(e, &t, &e->row[i], &out);
    put_note(e, screen, &out);
    return cmd_write_str("-", &out);
}

static clt_status print_json(const estimation *e)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 2);
    clt_jw_object(&w);
    clt_jw_kbool(&w, "planned", true);
    clt_jw_kdouble(&w, "reach", e->options->reach / 100);
    clt_jw_kint(&w, "ranks", e->options->ranks);
    clt_jw_kstring(&w, "currency", clt_config_string(e->config, "cost.currency"));
    clt_jw_karray(&w, "cards");
    for (int i = 0; i < e->count; i++) {
        const card_row *r = &e->row[i];
        clt_jw_object(&w);
        clt_jw_kstring(&w, "card", r->card->name);
        clt_jw_kdouble(&w, "bandwidth_gbs", r->card->gbs);
        clt_jw_kdouble(&w, "f32_tflops", r->card->f32_tflops);
        clt_jw_kdouble(&w, "tf32_tflops", r->card->tf32_tflops);
        clt_jw_kdouble(&w, "half_tflops", r->card->half_tflops);
        clt_jw_kint(&w, "usable_bytes", (int64_t)r->usable);
        clt_jw_kdouble(&w, "needed_bytes", r->needed > 0 ? (double)r->needed : NAN);
        clt_jw_kbool(&w, "fits", r->fits);
        clt_jw_kint(&w, "micro_batch", r->micro_batch);
        clt_jw_kint(&w, "largest_micro_batch", r->largest);
        clt_jw_kint(&w, "global_batch", r->global_batch);
        clt_jw_kint(&w, "steps", r->steps);
        clt_jw_kdouble(&w, "step_seconds", r->step_s);
        clt_jw_kdouble(&w, "seconds", r->seconds);
        clt_jw_kdouble(&w, "price_per_hour", r->price);
        clt_jw_kdouble(&w, "cost", r->cost);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    return cmd_write_line("-", &out);
}

clt_status estimate_cards(const clt_config *config, const estimate_cards_options *options)
{
    estimation e = {.config = config, .options = options};
    CLT_TRY(read_cards(&e, options->cards));
    if (options->prices)
        CLT_TRY(read_prices(&e, options->prices));
    for (int i = 0; i < e.count; i++)
        CLT_TRY(plan(&e, &e.row[i]));
    return options->json ? print_json(&e) : print_table(&e);
}
