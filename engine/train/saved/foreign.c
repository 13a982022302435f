/* SPDX-License-Identifier: Apache-2.0
 *
 * Matches the tensors of a file with the model's parameters. Files of other programs may have a prefix
 * before every name, buffers, second copies of tied weights, and tensors for another task. An unused tensor
 * that belongs to a part of this model is an error, because a model without it computes something else.
 * Nothing here needs a device. weight_mismatch.c writes the list of differences. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "engine/ops/op.h"
#include "engine/train/run/weight_mismatch.h"
#include "engine/train/run/run.h"

/* The published names of family number `index`; NULL: there are none. */
static const clt_model_published *published(int index, int *count)
{
    const clt_model_family *const *families = clt_model_families(count);
    return index < *count ? families[index]->published : NULL;
}

const clt_model_published *clt_weights_published(const clt_graph *graph)
{
    int count = 1;
    for (int i = 0; i < count; i++) {
        const clt_model_published *p = published(i, &count);
        if (p && clt_graph_find_param(graph, p->table))
            return p;
    }
    return NULL;
}

static const char *prefix_of(const clt_graph *graph)
{
    const clt_model_published *p = clt_weights_published(graph);
    return p ? p->prefix : "";
}

const char *clt_weights_short_name(const clt_graph *graph, const char *name)
{
    const char *prefix = prefix_of(graph);
    return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
}

/* Copies `name` with its ending renamed. Each of the family's renamed endings is a pair: ending number
 * `from` (0 or 1) is replaced by the other one. False: the name has no such ending. */
static bool rename_ending(const clt_model_published *p, const char *name, int from, char *out, size_t size)
{
    for (const char *const(*pair)[2] = p ? p->renamed : NULL; pair && (*pair)[0]; pair++)
        if (clt_ends_with(name, (*pair)[from])) {
            int kept = (int)(strlen(name) - strlen((*pair)[from]));
            return (size_t)snprintf(out, size, "%.*s%s", kept, name, (*pair)[1 - from]) < size;
        }
    return false;
}

/* Looks a parameter up under its name and under the one with the published prefix, both after `before`, and
 * then under the names of older files. */
static const clt_named_tensor *find_after(const clt_graph *graph, const clt_safetensors *file,
                                          const char *before, const char *name)
{
    char longer[512], older[400];
    const clt_named_tensor *tensor = NULL;
    const char *const prefixes[] = {"", prefix_of(graph)};
    for (int i = 0; i < 2 && !tensor; i++)
        if ((size_t)snprintf(longer, sizeof longer, "%s%s%s", before, prefixes[i], name) < sizeof longer)
            tensor = clt_safetensors_find(file, longer);
    if (!tensor && rename_ending(clt_weights_published(graph), name, 0, older, sizeof older))
        tensor = find_after(graph, file, before, older);
    return tensor;
}

const clt_named_tensor *clt_weights_find(const clt_graph *graph, const clt_safetensors *file,
                                         const char *name)
{
    return find_after(graph, file, "", name);
}

const clt_named_tensor *clt_run_find_tensor(const clt_graph *graph, const clt_safetensors *file,
                                            const clt_param *param)
{
    return clt_weights_find(graph, file, param->file_name);
}

static bool same_values(const clt_named_tensor *a, const clt_named_tensor *b)
{
    size_t bytes = (size_t)clt_shape_elements(&a->shape) * clt_dtype_bytes(a->dtype);
    return b && clt_dtype_is_float(a->dtype) && a->dtype == b->dtype &&
           clt_shape_equal(&a->shape, &b->shape) && memcmp(a->data, b->data, bytes) == 0;
}

/* True for a tensor of one of the graph's layers that the layer's op does not use. */
static bool op_leaves_out(const clt_graph *graph, const clt_named_tensor *tensor)
{
    const char *dot = strrchr(tensor->name, '.');
    for (size_t k = 0; dot && k < graph->n_nodes; k++) {
        const clt_node *node = graph->nodes[k];
        size_t length = strlen(node->name);
        if (length != (size_t)(dot - tensor->name) || memcmp(node->name, tensor->name, length) != 0)
            continue;
        for (const char *const *end = node->op->unused_in_files; end && *end; end++)
            if (strcmp(dot + 1, *end) == 0)
                return true;
    }
    return false;
}

/* True for tensors that need not be used: causal masks, an output layer that equals the token embedding it
 * is tied to, the copy of its bias, and tensors that ops do not use. */
static bool may_be_left_out(const clt_graph *graph, const clt_safetensors *file,
                            const clt_named_tensor *tensor)
{
    const clt_model_published *p = clt_weights_published(graph);
    if (op_leaves_out(graph, tensor))
        return true;
    for (const char *const *end = p ? p->buffers : NULL; end && *end; end++)
        if (clt_ends_with(tensor->name, *end))
            return true;
    const char *name = clt_weights_short_name(graph, tensor->name);
    if (p && p->shift && strcmp(name, p->shift_copy) == 0)
        return same_values(tensor, clt_weights_find(graph, file, p->shift));
    return p && strcmp(name, p->head) == 0 &&
           same_values(tensor, clt_run_find_tensor(graph, file, clt_graph_find_param(graph, p->table)));
}

/* True if a parameter takes this tensor. A file may hold a parameter under its long and its short name; then
 * only one of the two tensors is used. */
static bool is_used(const clt_graph *graph, const clt_safetensors *file, const clt_named_tensor *tensor)
{
    char newer[400];
    const char *shorter = clt_weights_short_name(graph, tensor->name);
    if (rename_ending(clt_weights_published(graph), shorter, 1, newer, sizeof newer))
        shorter = newer;
    for (size_t i = 0; i < graph->n_params; i++) {
        const char *name = graph->params[i].file_name;
        if (strcmp(name, tensor->name) == 0 || strcmp(name, shorter) == 0)
            return clt_run_find_tensor(graph, file, &graph->params[i]) == tensor;
    }
    return false;
}

/* True if the first components of two names, up to the first dot, are the same apart from the numbers in
 * them: "h" of "h.11.ln_1.bias", "layer%" of "layer4.0.conv1.weight". */
static bool same_beginning(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;;) {
        size_t in_a = strspn(a, digits), in_b = strspn(b, digits);
        if ((in_a > 0) != (in_b > 0))
            return false;
        a += in_a;
        b += in_b;
        bool ended = *a == '.' || *a == '\0';
        if (ended || *a != *b)
            return ended && (*b == '.' || *b == '\0');
        a++;
        b++;
    }
}

/* True if an unused tensor shows that the file is of another model: a further layer, a bias, an adapter, an
 * output layer of its own. Other tensors, such as the head of another task or counters, are not needed for
 * what this model computes. */
static bool tells_another_model(const clt_graph *graph, const clt_safetensors *file,
                                const clt_named_tensor *tensor)
{
    const clt_model_published *p = clt_weights_published(graph);
    const char *name = clt_weights_short_name(graph, tensor->name);
    bool number = clt_dtype_is_float(tensor->dtype) || clt_safetensors_type(file, tensor)[0] == 'F';
    if (!number)
        return false;
    for (size_t i = 0; i < graph->n_params; i++)
        if (same_beginning(name, graph->params[i].file_name))
            return true;
    return p && strcmp(name, p->head) == 0;
}

/* The largest number of rows of a token embedding that may be padding by another program. */
static int64_t padding_rows(int64_t rows)
{
    return rows / 16 > 63 ? rows / 16 : 63;
}

bool clt_weights_fit_shape(const clt_param *param, const clt_named_tensor *tensor)
{
    clt_shape want = clt_param_file_shape(param), given = tensor->shape;
    if (given.ndim == want.ndim && given.ndim > 0 && given.dim[0] > want.dim[0] &&
        (param->file_longer == CLT_LONGER_ANY || (param->file_longer == CLT_LONGER_PADDED &&
                                                  given.dim[0] - want.dim[0] <= padding_rows(want.dim[0]))))
        given.dim[0] = want.dim[0];
    return clt_shape_equal(&given, &want);
}

/* Adds a note such as "wpe.weight: the first 256 of 1024 rows". */
static void note_rows(const clt_param *param, const clt_named_tensor *tensor, clt_weights_taken *taken)
{
    int64_t rows = clt_param_file_shape(param).dim[0];
    size_t used = strlen(taken->notes);
    if (tensor->shape.ndim > 0 && tensor->shape.dim[0] > rows)
        snprintf(taken->notes + used, sizeof taken->notes - used, "%s%.60s: the first %lld of %lld rows",
                 used ? "; " : "", param->file_name, (long long)rows, (long long)tensor->shape.dim[0]);
}

/* --- what --init-skip names --- */

#define SKIP_PATTERN 200

/* The next pattern of a list; false: there is none. *at begins at the list. */
static bool next_pattern(const char **at, char pattern[SKIP_PATTERN])
{
    while (*at && (**at == ',' || **at == ' '))
        ++*at;
    if (!*at || !**at)
        return false;
    size_t length = strcspn(*at, ", ");
    snprintf(pattern, SKIP_PATTERN, "%.*s", (int)(length < SKIP_PATTERN ? length : SKIP_PATTERN - 1), *at);
    *at += length;
    return true;
}

static bool fits_param(const char *pattern, const clt_param *param)
{
    return fnmatch(pattern, param->name, 0) == 0 || fnmatch(pattern, param->file_name, 0) == 0;
}

static bool fits_tensor(const clt_graph *graph, const char *pattern, const clt_named_tensor *tensor)
{
    return fnmatch(pattern, tensor->name, 0) == 0 ||
           fnmatch(pattern, clt_weights_short_name(graph, tensor->name), 0) == 0;
}

static bool skips_param(const char *skip, const clt_param *param)
{
    char pattern[SKIP_PATTERN];
    while (next_pattern(&skip, pattern))
        if (fits_param(pattern, param))
            return true;
    return false;
}

/* True if some tensor belongs to a low-rank adapter. */
static bool holds_adapter(const clt_safetensors *file)
{
    for (int i = 0; i < clt_safetensors_count(file); i++)
        if (strstr(clt_safetensors_at(file, i)->name, CLT_ADAPTER_MARK))
            return true;
    return false;
}

bool clt_weights_keep_initial(const clt_safetensors *file, const char *skip, const clt_param *param)
{
    return skips_param(skip, param) || (skip && param->adapter && !holds_adapter(file));
}

static bool skips_tensor(const clt_graph *graph, const char *skip, const clt_named_tensor *tensor)
{
    char pattern[SKIP_PATTERN];
    while (next_pattern(&skip, pattern))
        if (fits_tensor(graph, pattern, tensor))
            return true;
    return false;
}

/* A pattern may name parameters, or tensors of the file alone, such as an auxiliary head's. */
static clt_status check_skip(const clt_graph *graph, const clt_safetensors *file, const char *skip)
{
    char pattern[SKIP_PATTERN];
    for (const char *at = skip; at && *at; at += strcspn(at, ", "), at += strspn(at, ", "))
        if (strcspn(at, ", ") >= SKIP_PATTERN)
            CLT_FAIL(CLT_EUSAGE,
                     "--init-skip: the pattern that begins with '%.40s' has %llu characters, up to %d are "
                     "supported; shorten it with *",
                     at, (unsigned long long)strcspn(at, ", "), SKIP_PATTERN - 1);
    while (next_pattern(&skip, pattern)) {
        bool found = false;
        for (size_t i = 0; i < graph->n_params && !found; i++)
            found = fits_param(pattern, &graph->params[i]);
        for (int i = 0; i < clt_safetensors_count(file) && !found; i++)
            found = fits_tensor(graph, pattern, clt_safetensors_at(file, i));
        if (!found)
            return clt_model_no_parameter(graph, "--init-skip", pattern);
    }
    return CLT_OK;
}

static void note_kept(const clt_param *param, clt_weights_taken *taken)
{
    size_t used = strlen(taken->kept_names);
    int length = snprintf(taken->kept_names + used, sizeof taken->kept_names - used, "%s%s", used ? ", " : "",
                          param->name);
    if (used + (size_t)length >= sizeof taken->kept_names) /* a name is not cut */
        taken->kept_names[used] = '\0';
    taken->kept++;
}

/* Adds the parameter to the list if its tensor is missing or does not fit. */
static void compare(clt_mismatches *list, const clt_param *param, clt_weights_taken *taken)
{
    const clt_named_tensor *tensor = clt_run_find_tensor(list->graph, list->file, param);
    clt_shape need = clt_param_file_shape(param);
    if (!tensor)
        clt_mismatches_add(list, CLT_MISMATCH_MISSING, param->file_name, &need, NULL);
    else if (!clt_dtype_is_float(tensor->dtype))
        clt_mismatches_add(list, CLT_MISMATCH_TYPE, tensor->name, &need, tensor);
    else if (!clt_weights_fit_shape(param, tensor))
        clt_mismatches_add(list, CLT_MISMATCH_SHAPE, tensor->name, &need, tensor);
    else
        note_rows(param, tensor, taken);
    taken->tensors++;
}

/* --- prefixes of wrappers --- */

#define PREFIX_SIZE 100

/* True if a prefix consists of parts that wrappers put before every name: PyTorch's DataParallel,
 * torch.compile, classes that hold the model as a member. */
static bool is_known_prefix(const char *prefix)
{
    static const char *const parts[] = {"module.", "model.", "_orig_mod.", "transformer.", "bert."};
    while (*prefix) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && length == 0; i++)
            if (strncmp(prefix, parts[i], strlen(parts[i])) == 0)
                length = strlen(parts[i]);
        if (length == 0)
            return false;
        prefix += length;
    }
    return true;
}

static bool has_all(const clt_graph *graph, const clt_safetensors *file, const char *skip, const char *prefix)
{
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        if (!clt_weights_keep_initial(file, skip, param) &&
            !find_after(graph, file, prefix, param->file_name))
            return false;
    }
    return true;
}

/* Shortens the prefix part by part until the file has all names with it; false if no prefix is left. */
static bool shorten_until_found(const clt_graph *graph, const clt_safetensors *file, const char *skip,
                                char *prefix)
{
    while (*prefix) {
        if (has_all(graph, file, skip, prefix))
            return true;
        prefix[strlen(prefix) - 1] = '\0';
        char *dot = strrchr(prefix, '.');
        prefix[dot ? dot - prefix + 1 : 0] = '\0';
    }
    return false;
}

clt_status clt_weights_take_off_prefix(const clt_graph *graph, clt_safetensors *file, const char *skip,
                                       clt_weights_taken *taken)
{
    char prefix[PREFIX_SIZE];
    const char *first = NULL;
    taken->prefix[0] = '\0';
    for (size_t i = 0; i < graph->n_params && !first; i++)
        if (!clt_weights_keep_initial(file, skip, &graph->params[i]))
            first = graph->params[i].file_name;
    if (!first || has_all(graph, file, skip, ""))
        return CLT_OK;
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const char *name = clt_safetensors_at(file, i)->name;
        size_t length = clt_stem(name, first);
        if (length == 0 || length >= sizeof prefix)
            continue;
        snprintf(prefix, sizeof prefix, "%.*s", (int)length, name);
        if (!is_known_prefix(prefix) || !shorten_until_found(graph, file, skip, prefix))
            continue;
        CLT_TRY(clt_safetensors_strip_prefix(file, prefix));
        snprintf(taken->prefix, sizeof taken->prefix, "%s", prefix);
        CLT_INFO("the names of the tensors lose the prefix '%s' of the program that saved them", prefix);
        return CLT_OK;
    }
    return CLT_OK;
}

/* Warns of the tensors that were not needed. */
static void tell_passed_over(const char *path, const char *names, int count)
{
    if (count > 0)
        CLT_WARN("'%.300s' holds %d tensor%s that the model does not use: %s", path, count, CLT_PLURAL(count),
                 names);
}

/* Handles the tensors that no parameter takes. They are mismatches, except in a file of another program
 * (`others`) that holds all that is needed: there, tensors that do not belong to this model cause only a
 * warning. */
static void compare_rest(clt_mismatches *list, const char *path, const char *skip, bool others)
{
    char names[300] = "";
    int passed = 0;
    bool fits = list->count == 0;
    for (int i = 0; i < clt_safetensors_count(list->file); i++) {
        const clt_named_tensor *tensor = clt_safetensors_at(list->file, i);
        if (skips_tensor(list->graph, skip, tensor) || is_used(list->graph, list->file, tensor) ||
            may_be_left_out(list->graph, list->file, tensor))
            continue;
        if (!fits || !others || tells_another_model(list->graph, list->file, tensor)) {
            clt_mismatches_add(list, CLT_MISMATCH_UNUSED, tensor->name, NULL, tensor);
            continue;
        }
        size_t used = strlen(names);
        if (used + strlen(tensor->name) + 3 < sizeof names - 5)
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", tensor->name);
        else if (used == 0 || names[used - 1] != '.')
            snprintf(names + used, sizeof names - used, "%s...", used ? ", " : "");
        passed++;
    }
    if (list->count == 0)
        tell_passed_over(path, names, passed);
}

static void clear_but_prefix(clt_weights_taken *taken)
{
    clt_weights_taken empty = {0};
    memcpy(empty.prefix, taken->prefix, sizeof empty.prefix);
    *taken = empty;
    if (taken->prefix[0])
        snprintf(taken->notes, sizeof taken->notes, "names without the prefix '%s'", taken->prefix);
}

clt_status clt_weights_check(const clt_graph *graph, const clt_safetensors *file, const char *path,
                             const char *skip, clt_weights_taken *taken)
{
    clt_mismatches list = {.graph = graph, .file = file, .may_skip = skip != NULL};
    clt_weights_taken own;
    own.prefix[0] = '\0';
    taken = taken ? taken : &own;
    clear_but_prefix(taken);
    CLT_TRY(check_skip(graph, file, skip));
    for (size_t i = 0; i < graph->n_params; i++)
        if (skips_param(skip, &graph->params[i]))
            note_kept(&graph->params[i], taken);
        else if (clt_weights_keep_initial(file, skip, &graph->params[i]))
            taken->adapters++;
        else
            compare(&list, &graph->params[i], taken);
    if (taken->tensors == 0 && taken->kept > 0)
        CLT_FAIL(CLT_ECONFIG,
                 "--init-skip: '%.200s' names all %d parameters, so nothing of '%.300s' is used; "
                 "without --init all of them start with their random initial values",
                 skip, taken->kept, path);
    compare_rest(&list, path, skip, taken != &own);
    return clt_mismatches_finish(&list, path);
}
