/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as text and as JSON: memory by class, memory map, and the commands of each phase with the tensors
 * they use and the variant that emitted them. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/plan/plan_internal.h"
#include "engine/base/text.h"

static bool placed_here(const clt_plan *plan, size_t i)
{
    return plan->place[i].kind == CLT_PLACE_PLAN && clt_graph_tensor(plan->graph, (int32_t)i)->view_of < 0;
}

static void print_memory(const clt_plan *plan, clt_str *out)
{
    clt_str_printf(out,
                   "memory map: %d slab(s), input region %" PRIu64 " bytes, activations %" PRIu64
                   " bytes (lower bound %" PRIu64 ")\n",
                   plan->n_slabs, plan->input_bytes, plan->activation_bytes, plan->activation_bound);
    clt_str_append(out, "  slab     offset        bytes  lives          tensor\n");
    for (size_t i = 0; i < plan->n_place; i++) {
        const clt_place *p = &plan->place[i];
        if (i >= plan->graph->n_tensors || !placed_here(plan, i))
            continue;
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        char shape[CLT_SHAPE_TEXT], last[16] = "end";
        if (p->last != UINT32_MAX)
            snprintf(last, sizeof last, "%u", p->last / CLT_TIME_SUB);
        clt_str_printf(out, "  %4d %10" PRIu64 " %12" PRIu64 "  %5u..%-7s %s %s%s %s (%s)\n", p->slab,
                       p->offset, p->bytes, p->first / CLT_TIME_SUB, last, t->name,
                       clt_shape_text(&t->shape, shape, sizeof shape),
                       t->layout == CLT_LAYOUT_ROW_MAJOR ? "" : " channels-last", clt_dtype_name(t->dtype),
                       clt_tensor_class_name(t->cls));
    }
}

static void print_store(const clt_plan *plan, clt_str *out)
{
    if (!plan->store)
        return;
    clt_str_append(out, "store:\n");
    for (int kind = 0; kind < CLT_ARENA_COUNT; kind++) {
        uint64_t bytes = clt_store_arena_bytes(plan->store, (clt_arena_kind)kind);
        if (bytes)
            clt_str_printf(out, "  %-17s %12" PRIu64 " bytes\n", clt_arenas[kind].name, bytes);
    }
    for (int32_t i = 0; i < plan->store->n_slots; i++) {
        const clt_store_slot *slot = &plan->store->slots[plan->store->order[i]];
        char shape[CLT_SHAPE_TEXT];
        clt_str_printf(out, "  slab %d  element %10" PRIu64 "  %s %s%s%s\n", slot->slab, slot->offset,
                       slot->name, clt_shape_text(&slot->shape, shape, sizeof shape),
                       slot->buffer      ? " buffer"
                       : slot->trainable ? ""
                       : slot->narrow    ? " frozen, 16 bits"
                                         : " frozen",
                       slot->group == CLT_GROUP_DECAY ? " decay" : "");
    }
}

static void print_buckets(const clt_plan *plan, clt_str *out)
{
    if (plan->n_buckets)
        clt_str_printf(out, "gradient buckets: %zu\n", plan->n_buckets);
    for (size_t b = 0; b < plan->n_buckets; b++) {
        const clt_bucket *bucket = &plan->buckets[b];
        clt_str_printf(out,
                       "  %4zu slab %d  element %10" PRIu64 "  %10" PRIu64
                       " elements  ready after %zu command%s of the backward pass\n",
                       b, bucket->range.slab, bucket->range.first, bucket->range.elements, bucket->ready,
                       CLT_PLURAL(bucket->ready));
    }
}

/* Prints the gradients of embeddings that travel as rows. */
static void print_rows(const clt_plan *plan, clt_str *out)
{
    for (size_t k = 0; k < plan->n_sums; k++) {
        const clt_sum *sum = &plan->sums[k];
        if (sum->kind != CLT_SUM_ROWS)
            continue;
        const clt_node *node = plan->work[sum->work].node;
        const clt_tensor *own = clt_graph_tensor(plan->graph, sum->own);
        const clt_param *table = &plan->graph->params[node->param[0]];
        int64_t dim = clt_shape_last(&table->shape);
        clt_str_printf(out, "rows of %s: %lld of %lld features (%s) from each rank, added to %s\n",
                       node->name, (long long)(clt_shape_elements(&own->shape) / dim), (long long)dim,
                       clt_dtype_name(own->dtype), table->name);
    }
}

static void print_args(const clt_plan *plan, const ocl_command *c, clt_str *out)
{
    for (int a = 0; a < c->n_args; a++) {
        const ocl_arg *arg = &c->args[a];
        if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
            continue;
        const char *mark = arg->access == OCL_READ ? "<" : arg->access == OCL_WRITE ? ">" : "<>";
        clt_str_printf(out, " %s%s", mark, clt_graph_tensor(plan->graph, arg->ref.tensor)->name);
    }
}

clt_status clt_plan_print(const clt_plan *plan, clt_str *out)
{
    print_store(plan, out);
    print_memory(plan, out);
    print_buckets(plan, out);
    print_rows(plan, out);
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        const ocl_command_list *list = &plan->phase[p];
        if (!list->count)
            continue;
        clt_str_printf(out, "phase %s: %zu command%s\n", clt_phase_name((clt_phase)p), list->count,
                       CLT_PLURAL(list->count));
        for (size_t i = 0; i < list->count; i++) {
            const ocl_command *c = &list->commands[i];
            clt_str_printf(out, "  %4zu %-7s %-28s %-10s %-26s %10" PRIu64 " B %12.0f flop ", i,
                           ocl_command_kind_name(c->kind), c->label ? c->label : "",
                           c->variant ? c->variant : "", c->kind == OCL_CMD_KERNEL ? c->kernel : "",
                           ocl_command_bytes(c), c->flops);
            print_args(plan, c, out);
            clt_str_append(out, c->derives ? "  (kept until the parameter changes)\n" : "\n");
        }
    }
    return clt_str_check(out);
}

static void json_command(const clt_plan *plan, const ocl_command *c, clt_json_writer *w)
{
    static const char *const access[] = {"", "read", "write", "read_write"};
    clt_jw_object(w);
    clt_jw_kstring(w, "kind", ocl_command_kind_name(c->kind));
    clt_jw_kstring(w, "label", c->label ? c->label : "");
    clt_jw_kstring(w, "variant", c->variant ? c->variant : "");
    if (c->kind == OCL_CMD_KERNEL) {
        clt_jw_kstring(w, "family", c->family);
        clt_jw_kstring(w, "kernel", c->kernel);
    }
    clt_jw_kdouble(w, "flops", c->flops);
    clt_jw_kint(w, "bytes", (int64_t)ocl_command_bytes(c));
    clt_jw_karray(w, "tensors");
    for (int a = 0; a < c->n_args; a++) {
        const ocl_arg *arg = &c->args[a];
        if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
            continue;
        clt_jw_object(w);
        clt_jw_kint(w, "id", clt_plan_owner(plan, arg->ref.tensor));
        clt_jw_kstring(w, "name", clt_graph_tensor(plan->graph, arg->ref.tensor)->name);
        clt_jw_kstring(w, "access", access[arg->access]);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

static void json_tensors(const clt_plan *plan, clt_json_writer *w)
{
    clt_jw_array(w);
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        const clt_place *p = &plan->place[i];
        if (p->kind == CLT_PLACE_NONE)
            continue;
        clt_jw_object(w);
        clt_jw_kint(w, "id", t->id);
        clt_jw_kstring(w, "name", t->name);
        clt_jw_kstring(w, "class", clt_tensor_class_name(t->cls));
        clt_jw_kstring(w, "dtype", clt_dtype_name(t->dtype));
        clt_jw_karray(w, "shape");
        for (int d = 0; d < t->shape.ndim; d++)
            clt_jw_int(w, t->shape.dim[d]);
        clt_jw_end_array(w);
        clt_jw_kstring(w, "place", p->kind == CLT_PLACE_PLAN ? "plan" : clt_arenas[p->arena].name);
        clt_jw_kint(w, "slab", p->slab);
        clt_jw_kint(w, "offset", (int64_t)p->offset);
        clt_jw_kint(w, "bytes", (int64_t)p->bytes);
        if (t->view_of >= 0)
            clt_jw_kint(w, "view_of", t->view_of);
        clt_jw_kbool(w, "output", t->is_output);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

clt_status clt_plan_print_json(const clt_plan *plan, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kint(w, "input_bytes", (int64_t)plan->input_bytes);
    clt_jw_kint(w, "activation_bytes", (int64_t)plan->activation_bytes);
    clt_jw_kint(w, "activation_bound", (int64_t)plan->activation_bound);
    clt_jw_kint(w, "commands", (int64_t)clt_plan_commands(plan));
    clt_jw_key(w, "tensors");
    json_tensors(plan, w);
    clt_jw_kobject(w, "phases");
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        clt_jw_karray(w, clt_phase_name((clt_phase)p));
        for (size_t i = 0; i < plan->phase[p].count; i++)
            json_command(plan, &plan->phase[p].commands[i], w);
        clt_jw_end_array(w);
    }
    clt_jw_end_object(w);
    clt_jw_end_object(w);
    return clt_str_check(w->out);
}
