/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a sweep: which trials are done, with what results, and which rung is trained now. Reads the
 * records in the sweep's folder; a record never changes once it is there, so it is read once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sweep/sweep_internal.h"
#include "engine/sweep/sweep_lease.h"

const char *clt_trial_state_text(clt_trial_state state)
{
    static const char *const texts[] = {"waiting", "running", "done", "failed", "left"};
    return texts[state];
}

clt_status clt_sweep_table_make(const clt_sweep *s, clt_sweep_table *out)
{
    size_t count = (size_t)s->trials;
    *out = (clt_sweep_table){.sweep = s, .best = -1, .member_count = s->trials, .unsettled = s->trials};
    CLT_TRY(clt_alloc(&out->trials, count, sizeof *out->trials, "the table of a sweep"));
    CLT_TRY(clt_alloc(&out->order, count, sizeof *out->order, "the table of a sweep"));
    CLT_TRY(clt_alloc(&out->members, count, sizeof *out->members, "the table of a sweep"));
    for (int t = 0; t < s->trials; t++) {
        out->members[t] = out->order[t] = t;
        out->trials[t].result = (clt_trial_result){.value = NAN, .seconds = NAN, .cost = NAN};
    }
    return CLT_OK;
}

void clt_sweep_table_free(clt_sweep_table *table)
{
    free(table->trials);
    free(table->order);
    free(table->members);
    *table = (clt_sweep_table){0};
}

static clt_status read_trial(clt_sweep_table *table, const char *folder, int t)
{
    clt_trial *trial = &table->trials[t];
    clt_trial_result result;
    clt_trial_failures failures;
    if (trial->state == CLT_TRIAL_DONE || trial->state == CLT_TRIAL_FAILED)
        return CLT_OK;
    trial->state = CLT_TRIAL_WAITING;
    trial->note[0] = '\0';
    CLT_TRY(clt_sweep_read_result(table->sweep, folder, t, table->rung, &result));
    if (result.done) {
        trial->result = result;
        trial->state = CLT_TRIAL_DONE;
        return CLT_OK;
    }
    CLT_TRY(clt_sweep_read_failures(table->sweep, folder, t, table->rung, &failures));
    if (failures.given_up)
        trial->state = CLT_TRIAL_FAILED;
    snprintf(trial->note, sizeof trial->note, "%s", failures.reason);
    return CLT_OK;
}

/* Moves the best trials of the rung on to the next rung. */
static void next_rung(clt_sweep_table *table)
{
    int before = table->member_count;
    table->rung++;
    for (int i = 0; i < before; i++)
        if (table->trials[table->members[i]].state == CLT_TRIAL_DONE)
            table->trials[table->members[i]].state = CLT_TRIAL_LEFT;
    table->member_count =
        clt_sweep_survivors(table->sweep, table->rung, table->trials, table->members, before);
    for (int i = 0; i < table->member_count; i++)
        table->trials[table->members[i]].state = CLT_TRIAL_WAITING;
}

clt_status clt_sweep_table_read(clt_sweep_table *table, const char *folder)
{
    for (;;) {
        table->unsettled = 0;
        for (int i = 0; i < table->member_count; i++) {
            CLT_TRY(read_trial(table, folder, table->members[i]));
            clt_trial_state state = table->trials[table->members[i]].state;
            table->unsettled += state != CLT_TRIAL_DONE && state != CLT_TRIAL_FAILED;
        }
        if (table->unsettled > 0 || table->rung == table->sweep->rungs - 1)
            break;
        next_rung(table);
    }
    clt_sweep_rank(table->sweep, table->trials, table->order, table->sweep->trials);
    const clt_trial *first = &table->trials[table->order[0]];
    bool best = first->state != CLT_TRIAL_FAILED && first->result.done && isfinite(first->result.value);
    table->best = best ? table->order[0] : -1;
    return CLT_OK;
}

clt_status clt_sweep_table_look(clt_sweep_table *table, const char *folder)
{
    for (int i = 0; i < table->member_count; i++) {
        clt_trial *trial = &table->trials[table->members[i]];
        CLT_FREED char *path = NULL;
        CLT_TRY(
            clt_sweep_record_path(table->sweep, folder, "lease", table->members[i], table->rung, "", &path));
        if (trial->state == CLT_TRIAL_WAITING && clt_lease_holder(path, trial->note, sizeof trial->note))
            trial->state = CLT_TRIAL_RUNNING;
    }
    return CLT_OK;
}

/* Appends the best trials of a sweep. */
static clt_status add_trials(const char *folder, int most, clt_file_list *out)
{
    CLT_SCOPED(clt_sweep) *sweep = NULL;
    CLT_SCOPED(clt_sweep_table) table = {0};
    const size_t before = out->count;
    CLT_TRY(clt_sweep_open(folder, &sweep));
    CLT_TRY(clt_sweep_table_make(sweep, &table));
    CLT_TRY(clt_sweep_table_read(&table, folder));
    for (int i = 0; i < sweep->trials && i < most && table.trials[table.order[i]].result.done; i++) {
        char name[CLT_SWEEP_NAME], *run;
        CLT_TRY(clt_path_join(folder, clt_sweep_trial_name(sweep, table.order[i], name), &run));
        CLT_TRY(clt_file_list_add(out, run));
    }
    if (out->count == before && most > 0)
        CLT_FAIL(CLT_EUSAGE, "the sweep in '%s' has no results yet", folder);
    return CLT_OK;
}

clt_status clt_sweep_runs(const char *const *paths, int count, int most, clt_file_list *out)
{
    int sweeps = 0;
    for (int i = 0; i < count; i++)
        sweeps += clt_sweep_is_folder(paths[i]);
    int room = most - (count - sweeps); /* number of places for trials */
    if (room < sweeps)
        CLT_FAIL(CLT_EUSAGE, "at most %d runs can be compared, and there are %d", most, count);
    for (int i = 0; i < count; i++) {
        const size_t before = out->count;
        if (!clt_sweep_is_folder(paths[i])) {
            CLT_TRY(clt_file_list_add(out, strdup(paths[i])));
            continue;
        }
        CLT_TRY(add_trials(paths[i], room / sweeps, out));
        room -= (int)(out->count - before);
        sweeps--;
    }
    return CLT_OK;
}

/* --- for people --- */

bool clt_sweep_has_cost(const clt_sweep_table *t)
{
    bool any = false;
    for (int i = 0; i < t->sweep->trials; i++)
        any = any || !isnan(t->trials[i].result.cost);
    return any;
}

static void put_heads(const clt_sweep_table *t, bool cost, clt_sweep_cells *out)
{
    const clt_sweep *s = t->sweep;
    out->cell[out->count++] = "trial";
    for (int k = 0; k < s->key_count; k++)
        out->cell[out->count++] = s->keys[k].path;
    out->cell[out->count++] = "steps";
    out->cell[out->count++] = clt_fact_columns[s->metric].key;
    out->cell[out->count++] = "time";
    if (cost)
        out->cell[out->count++] = "cost";
    out->cell[out->count++] = "state";
}

void clt_sweep_row(const clt_sweep_table *t, int trial, clt_sweep_cells *out)
{
    const clt_sweep *s = t->sweep;
    const bool cost = clt_sweep_has_cost(t);
    *out = (clt_sweep_cells){.count = 0};
    if (trial < 0) {
        put_heads(t, cost, out);
        return;
    }
    const clt_trial *at = &t->trials[trial];
    const clt_trial_result *r = &at->result;
    out->cell[out->count++] = clt_sweep_trial_name(s, trial, out->name);
    for (int k = 0; k < s->key_count; k++)
        out->cell[out->count++] = clt_sweep_shown(s, trial, k, &out->keys[k]);
    out->cell[out->count++] =
        clt_cell_text(&clt_fact_columns[CLT_FACT_STEPS], r->done ? (double)r->steps : NAN, out->figures[0]);
    out->cell[out->count++] = clt_sweep_metric_text(s, r->value, out->figures[1]);
    out->cell[out->count++] = clt_cell_text(&clt_fact_columns[CLT_FACT_SECONDS], r->seconds, out->figures[2]);
    if (cost)
        out->cell[out->count++] = clt_cell_text(&clt_fact_columns[CLT_FACT_COST], r->cost, out->figures[3]);
    out->cell[out->count++] = clt_trial_state_text(at->state);
}

void clt_sweep_cells_free(clt_sweep_cells *cells)
{
    for (int k = 0; k < CLT_SWEEP_KEYS; k++)
        clt_str_free(&cells->keys[k]);
}

/* --- as JSON --- */

static clt_status write_trial(const clt_sweep_table *table, const char *folder, int t, clt_json_writer *w)
{
    const clt_sweep *s = table->sweep;
    const clt_trial *trial = &table->trials[t];
    CLT_SCOPED(clt_str) path = {0};
    char name[CLT_SWEEP_NAME];
    clt_str_printf(&path, "%s/%s", folder, clt_sweep_trial_name(s, t, name));
    clt_jw_object(w);
    clt_jw_kstring(w, "name", name);
    clt_jw_kstring(w, "folder", path.failed ? "" : path.text);
    clt_jw_kstring(w, "state", clt_trial_state_text(trial->state));
    if (trial->note[0])
        clt_jw_kstring(w, "note", trial->note);
    CLT_TRY(clt_sweep_write_keys(s, t, w));
    clt_jw_kint(w, "rung", trial->result.rung);
    clt_jw_kint(w, "steps", trial->result.steps);
    clt_jw_kdouble(w, clt_fact_columns[s->metric].key, trial->result.value);
    clt_jw_kdouble(w, "seconds", trial->result.seconds);
    if (!isnan(trial->result.cost) && s->metric != CLT_FACT_COST)
        clt_jw_kdouble(w, "cost", trial->result.cost);
    clt_jw_end_object(w);
    return clt_str_check(&path);
}

clt_status clt_sweep_table_write(const clt_sweep_table *table, const char *folder, clt_json_writer *w)
{
    static const char *const methods[] = {"grid", "random", "halving"};
    char name[CLT_SWEEP_NAME];
    clt_jw_object(w);
    clt_jw_kstring(w, "folder", folder);
    clt_jw_kstring(w, "method", methods[table->sweep->method]);
    clt_jw_kstring(w, "metric", clt_fact_columns[table->sweep->metric].key);
    clt_jw_kstring(w, "goal", table->sweep->more ? "max" : "min");
    clt_jw_kbool(w, "complete", table->unsettled == 0 && table->rung == table->sweep->rungs - 1);
    clt_jw_kstring(w, "best",
                   table->best >= 0 ? clt_sweep_trial_name(table->sweep, table->best, name) : NULL);
    clt_jw_karray(w, "trials");
    for (int i = 0; i < table->sweep->trials; i++)
        CLT_TRY(write_trial(table, folder, table->order[i], w));
    clt_jw_end_array(w);
    clt_jw_end_object(w);
    return CLT_OK;
}
