/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens an input file and a target file as one source, normalises floats as they are read, and crops and
 * flips images of bytes. */
#include "engine/data/arrays/source_pair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/pixels/augment.h"

typedef struct pair_state {
    clt_array_file file[2]; /* x, y */
    int count;              /* number of fields; 1: there are no targets */
    bool augmented;
    clt_augment augment;
    int channels, width, height; /* augmented: size of a stored image */
} pair_state;

static const char *const field_names[2] = {"x", "y"};

clt_status clt_source_config_shape(const clt_config *config, const char *key, clt_shape *shape)
{
    int count = clt_config_list_count(config, key);
    /* A batch adds one dimension to a sample. */
    if (count > CLT_MAX_DIMS - 1)
        CLT_FAIL(CLT_ECONFIG,
                 "reading %s: a sample has at most %d dimensions, %d were given; flatten some of them", key,
                 CLT_MAX_DIMS - 1, count);
    *shape = (clt_shape){.ndim = count};
    for (int i = 0; i < count; i++) {
        shape->dim[i] = clt_config_list_int(config, key, i);
        if (shape->dim[i] < 1)
            CLT_FAIL(CLT_ECONFIG, "reading %s: dimension %d is %lld; a dimension is at least 1", key, i + 1,
                     (long long)shape->dim[i]);
    }
    if (clt_shape_elements(shape) > INT32_MAX)
        CLT_FAIL(CLT_ECONFIG,
                 "reading %s: a sample of more than 2^31 numbers is too large; give a smaller shape", key);
    return CLT_OK;
}

/* Reads data.mean and data.std: one number for all channels, or a list with one for each. */
static clt_status read_channels(clt_source *source, const clt_config *config)
{
    int means = clt_config_list_count(config, "data.mean"), stds = clt_config_list_count(config, "data.std");
    source->channels = means > stds ? means : stds;
    if (means < 1 || stds < 1 || source->channels > CLT_MAX_NUMBERS ||
        (means > 1 && stds > 1 && means != stds))
        CLT_FAIL(
            CLT_ECONFIG,
            "reading data.mean and data.std: %d and %d numbers; each takes one number for all channels, or "
            "one for each, up to %d",
            means, stds, CLT_MAX_NUMBERS);
    for (int c = 0; c < source->channels; c++) {
        source->channel_mean[c] = clt_config_list_float(config, "data.mean", c < means ? c : 0);
        source->channel_std[c] = clt_config_list_float(config, "data.std", c < stds ? c : 0);
    }
    if (source->channels == 1)
        source->channels = 0;
    return CLT_OK;
}

clt_status clt_source_config_scale(clt_source *source, const clt_config *config)
{
    CLT_TRY(read_channels(source, config));
    double given = clt_config_float(config, "data.scale"), scale = given != 0 ? given : 1;
    double mean = clt_config_float(config, "data.mean");
    double std = clt_config_float(config, "data.std");
    source->scale = scale;
    source->mean = mean;
    source->std = std;
    if (!isfinite((float)scale) || !isfinite((float)mean) || !isfinite((float)std) || !((float)std > 0.0f))
        CLT_FAIL(CLT_ECONFIG,
                 "reading data.scale, data.mean and data.std: %g, %g and %g do not make a normalisation "
                 "(x*scale - mean)/std; all must be finite and data.std above 0",
                 scale, mean, std);
    return CLT_OK;
}

static clt_status pick_paths(const clt_config *config, clt_split split, const char *path[2],
                             const char *key[2])
{
    bool eval = split == CLT_SPLIT_EVAL;
    key[0] = eval ? "data.eval_path" : "data.path";
    key[1] = eval ? "data.eval_targets" : "data.targets";
    int count = clt_config_list_count(config, key[0]);
    const char *type = clt_config_string(config, "data.type");
    if (count != 1)
        CLT_FAIL(CLT_ECONFIG, "opening the %s data: data.type \"%s\" takes one file in %s, %d were given; %s",
                 eval ? "evaluation" : "training", type, key[0], count,
                 count == 0 ? "name the file" : "join the files into one");
    path[0] = clt_config_list_string(config, key[0], 0);
    path[1] = clt_config_string(config, key[1]);
    if (!path[0][0])
        CLT_FAIL(CLT_ECONFIG, "opening the %s data: %s is an empty path; name the file",
                 eval ? "evaluation" : "training", key[0]);
    bool has_train_targets = clt_config_string(config, "data.targets")[0] != '\0';
    if (eval && has_train_targets != (path[1][0] != '\0'))
        CLT_FAIL(CLT_ECONFIG, "opening the evaluation data: %s; give both, or neither",
                 has_train_targets ? "there are data.targets but no data.eval_targets"
                                   : "there are data.eval_targets but no data.targets");
    return CLT_OK;
}

static clt_status fill_field(clt_source *source, const pair_state *state, int index)
{
    const clt_array_file *file = &state->file[index];
    clt_source_field *field = &source->fields[index];
    field->name = field_names[index];
    field->dtype = file->dtype;
    field->shape = file->shape;
    /* Integers of x are pixels if they are u8, and indices if they are wider. */
    field->is_index = file->dtype != CLT_F32 && (index == 1 || file->dtype != CLT_U8);
    if (field->is_index) {
        int64_t min;
        CLT_TRY(clt_array_file_range(file, &min, &field->max_value));
    }
    return CLT_OK;
}

static clt_status describe(clt_source *source, const pair_state *state)
{
    char shape[CLT_SHAPE_TEXT], target_shape[CLT_SHAPE_TEXT];
    const clt_array_file *x = &state->file[0], *y = &state->file[1];
    const char *head = clt_arena_printf(
        source->arena, "%s: %lld sample%s of %s %s from '%s'", source->type->format->name,
        (long long)source->samples, CLT_PLURAL(source->samples),
        clt_shape_text(&x->shape, shape, sizeof shape), clt_element_name(x->element), x->path);
    if (!head)
        return CLT_ENOMEM;
    const clt_source_field *field = &source->fields[1];
    if (state->count == 1)
        source->description = clt_arena_printf(source->arena, "%s, no targets", head);
    else if (field->is_index)
        source->description = clt_arena_printf(
            source->arena, "%s, targets: whole numbers (%s%s%s), largest %lld, from '%s'", head,
            clt_element_name(y->element), y->shape.ndim > 0 ? " " : "",
            y->shape.ndim > 0 ? clt_shape_text(&y->shape, target_shape, sizeof target_shape) : "",
            (long long)field->max_value, y->path);
    else
        source->description = clt_arena_printf(source->arena, "%s, targets %s %s from '%s'", head,
                                               clt_shape_text(&y->shape, target_shape, sizeof target_shape),
                                               clt_element_name(y->element), y->path);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status open_files(clt_source *source, const clt_config *config, clt_split split,
                             clt_header_reader reader, pair_state *state)
{
    const char *path[2], *key[2];
    CLT_TRY(pick_paths(config, split, path, key));
    state->count = path[1][0] ? 2 : 1;
    for (int i = 0; i < state->count; i++) {
        CLT_TRY(clt_array_file_open(&state->file[i], source->arena, path[i], key[i]));
        clt_status status = reader(&state->file[i], config, i == 1);
        if (status != CLT_OK)
            return clt_fail_prefix(status, "opening %s", key[i]);
    }
    if (state->count == 2 && state->file[0].samples != state->file[1].samples)
        CLT_FAIL(
            CLT_EDATA,
            "opening the data: '%s' holds %lld sample%s but '%s' holds %lld target%s; the two files must "
            "belong together (training images with training labels, test with test)",
            path[0], (long long)state->file[0].samples, CLT_PLURAL(state->file[0].samples), path[1],
            (long long)state->file[1].samples, CLT_PLURAL(state->file[1].samples));
    return CLT_OK;
}

clt_status clt_pair_open(clt_source *source, const clt_config *config, clt_split split,
                         clt_header_reader reader)
{
    pair_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(open_files(source, config, split, reader, state));
    clt_array_file *x = &state->file[0];
    source->samples = x->samples;
    source->flags = x->flags;
    source->n_fields = state->count;
    source->bytes = (int64_t)(x->size + state->file[1].size);
    if (x->dtype == CLT_F32) {
        /* Integers are normalised on the device after the upload; floats are normalised here, once. */
        x->scale = source->scale;
        x->mean = source->mean;
        x->std = source->std;
        x->normalise = x->scale != 1.0 || x->mean != 0.0 || x->std != 1.0;
        source->scale = source->std = 1.0;
        source->mean = 0.0;
    }
    for (int i = 0; i < state->count; i++)
        CLT_TRY(fill_field(source, state, i));
    return describe(source, state);
}

void clt_pair_close(clt_source *source)
{
    pair_state *state = source->state;
    if (!state)
        return;
    clt_array_file_close(&state->file[0]);
    clt_array_file_close(&state->file[1]);
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const pair_state *state = source->state;
    return clt_array_file_read(&state->file[field], index, dst);
}

clt_status clt_pair_augment(clt_source *source, const clt_config *config, clt_split split)
{
    pair_state *s = source->state;
    clt_shape *shape = &source->fields[0].shape;
    int n = shape->ndim;
    bool image = s->file[0].dtype == CLT_U8 &&
                 (n == 2 || (n == 3 && (shape->dim[0] == 1 || shape->dim[0] == 3))) &&
                 shape->dim[n - 1] <= CLT_IMAGE_MAX_SIDE && shape->dim[n - 2] <= CLT_IMAGE_MAX_SIDE;
    s->channels = image && n == 3 ? (int)shape->dim[0] : 1;
    s->width = image ? (int)shape->dim[n - 1] : 1;
    s->height = image ? (int)shape->dim[n - 2] : 1;
    CLT_TRY(clt_augment_read(config, split, s->width, s->height, &s->augment));
    s->augmented = clt_augment_changes(&s->augment, s->width, s->height);
    if (!s->augmented)
        return CLT_OK;
    if (!image)
        CLT_FAIL(CLT_ECONFIG,
                 "opening the data: data.size, data.crop and data.flip are for images of bytes, (H,W), "
                 "(1,H,W) or (3,H,W); remove them");
    shape->dim[n - 1] = s->augment.width;
    shape->dim[n - 2] = s->augment.height;
    return CLT_OK;
}

/* Reads the part of an image that the random draw selects. A gray image is processed as three equal
 * channels, and delivered as one. */
static clt_status read_augmented(const clt_source *source, int64_t index, clt_draw draw, uint8_t *to)
{
    const pair_state *s = source->state;
    size_t plane = (size_t)s->width * (size_t)s->height;
    size_t result = (size_t)s->augment.width * (size_t)s->augment.height;
    uint8_t *stored = clt_image_scratch(CLT_SCRATCH_SAMPLE, 3 * plane);
    uint8_t *pixels = clt_image_scratch(CLT_SCRATCH_PIXELS, CLT_PIXEL * plane);
    uint8_t *planes = clt_image_scratch(CLT_SCRATCH_PLANES, 3 * result);
    if (!stored || !pixels || !planes)
        return CLT_ENOMEM;
    CLT_TRY(clt_array_file_read(&s->file[0], index, stored));
    for (int c = s->channels; c < 3; c++)
        memcpy(stored + (size_t)c * plane, stored, plane);
    clt_image_from_planes(stored, s->width, s->height, pixels);
    clt_view view = {pixels, s->width, s->height, (size_t)s->width * CLT_PIXEL};
    clt_cut cut = clt_augment_cut(&s->augment, draw, index, s->width, s->height);
    view = clt_view_part(&view, cut.box);
    CLT_TRY(clt_image_resize(&view, cut.width, cut.height, cut.window, cut.flip, planes));
    memcpy(to, planes, (size_t)s->channels * result);
    return CLT_OK;
}

clt_status clt_pair_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const pair_state *s = source->state;
    void *rest[CLT_MAX_FIELDS] = {NULL, to[1]};
    if (s->augmented && to[0])
        CLT_TRY(read_augmented(source, index, draw, to[0]));
    return clt_source_read_fields(source, index, s->augmented ? rest : to, read_field);
}

clt_status clt_pair_numbers(const clt_source *source, int64_t index, double *out)
{
    const pair_state *state = source->state;
    return clt_array_file_numbers(&state->file[0], index, out);
}

int64_t clt_pair_count_valid(const clt_source *source, int64_t index, int field, int64_t ignore)
{
    const pair_state *state = source->state;
    return clt_array_file_count_valid(&state->file[field], index, ignore);
}

void clt_pair_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const pair_state *state = source->state;
    const clt_array_file *file = &state->file[field];
    clt_str_printf(out, "'%s', sample %lld (from byte %llu on)", file->path, (long long)index,
                   (unsigned long long)clt_array_file_offset(file, index, 0));
}

void clt_pair_want(const clt_source *source, int64_t index)
{
    const pair_state *pair = source->state;
    for (int i = 0; i < pair->count; i++)
        clt_array_file_want(&pair->file[i], index);
}

clt_status clt_pair_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const pair_state *pair = source->state;
    for (int i = 0; i < pair->count; i++)
        clt_array_file_fingerprint(&pair->file[i], state);
    return CLT_OK;
}

static clt_status check_file(clt_array_file *file, clt_header_reader reader, clt_str *out)
{
    char shape[CLT_SHAPE_TEXT];
    void *sample = NULL;
    CLT_TRY(reader(file, NULL, true));
    clt_str_printf(out, "%lld sample%s of %s %s", (long long)file->samples, CLT_PLURAL(file->samples),
                   clt_shape_text(&file->shape, shape, sizeof shape), clt_element_name(file->element));
    if (file->dtype != CLT_F32) {
        int64_t min, max;
        CLT_TRY(clt_array_file_range(file, &min, &max));
        clt_str_printf(out, ", %lld to %lld", (long long)min, (long long)max);
        return clt_str_check(out);
    }
    CLT_TRY(clt_alloc(&sample, (size_t)file->sample_elements, clt_dtype_bytes(file->dtype), "a sample"));
    clt_status status = CLT_OK;
    for (int64_t i = 0; i < file->samples && status == CLT_OK; i++) {
        status = clt_array_file_read(file, i, sample);
        clt_map_unpin();
        if (status == CLT_OK && i % 1024 == 0)
            status = clt_map_check_one(&file->mapping);
    }
    free(sample);
    return status == CLT_OK ? clt_str_check(out) : status;
}

clt_status clt_pair_check_file(const char *path, clt_header_reader reader, clt_str *out)
{
    clt_array_file file = {0};
    clt_arena *arena;
    CLT_TRY(clt_arena_create(&arena));
    clt_status status = clt_array_file_open(&file, arena, path, "data verify");
    if (status == CLT_OK)
        status = check_file(&file, reader, out);
    clt_array_file_close(&file);
    clt_arena_destroy(arena);
    return status;
}

void clt_pair_check_rules(clt_config_rules *rules)
{
    bool targets = !clt_rules_empty(rules, "data.targets");
    bool eval = !clt_rules_empty(rules, "data.eval_path"),
         eval_targets = !clt_rules_empty(rules, "data.eval_targets");
    if (targets && eval && !eval_targets)
        clt_rules_broken(rules, "data.eval_targets", "required together with data.eval_path");
    if (eval_targets && !eval)
        clt_rules_broken(rules, "data.eval_path", "required together with data.eval_targets");
}

void clt_source_check_shape_rules(clt_config_rules *rules)
{
    static const char *const keys[] = {"data.shape", "data.target_shape"};
    for (int i = 0; i < 2; i++)
        if (clt_rules_usable(rules, keys[i]) &&
            clt_config_list_count(rules->config, keys[i]) > CLT_MAX_DIMS - 1)
            clt_rules_broken(rules, keys[i], "%s has at most %d dimensions", i == 0 ? "a sample" : "a target",
                             CLT_MAX_DIMS - 1);
}
