/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes random samples with the shapes of a config's data, known from the config or else from its files. */
#include "engine/data/open/synthetic_like.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/data/tokenizer/tokenizer.h"

#define LIKE_SAMPLES 65536
/* Samples are generated once, up to this many bytes, and then repeat. Generating them all the time would
 * take a core from a CPU device, while reading real data from memory does not. */
#define POOL_BYTES (INT64_C(4) << 20)

typedef struct like_pool {
    int64_t samples;
    uint8_t *field[CLT_MAX_FIELDS];
} like_pool;

/* The largest integer to draw; 255 if it is unknown. */
static uint32_t largest_of(const clt_source_field *f)
{
    return f->is_index && f->max_value >= 0 ? (uint32_t)f->max_value : 255;
}

static void fill_sample(const clt_source_field *f, int field, int64_t index, void *dst)
{
    int64_t n = clt_shape_elements(&f->shape);
    uint32_t limit = largest_of(f) + 1;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = clt_rng_u32(7, CLT_RNG_DATA, (uint32_t)field, (uint32_t)index, (uint64_t)i);
        switch (f->dtype) {
        case CLT_U8:
            ((uint8_t *)dst)[i] = (uint8_t)(word % limit);
            break;
        case CLT_U16:
            ((uint16_t *)dst)[i] = (uint16_t)(word % limit);
            break;
        case CLT_I32:
            ((int32_t *)dst)[i] = (int32_t)(word % limit);
            break;
        default:
            ((float *)dst)[i] = 2.0f * clt_rng_uniform(word) - 1.0f;
        }
    }
}

static clt_status make_pool(clt_source *source)
{
    like_pool *pool = clt_arena_alloc(source->arena, sizeof *pool);
    int64_t bytes = 0;
    if (!pool)
        return CLT_ENOMEM;
    for (int i = 0; i < source->n_fields; i++)
        bytes += (int64_t)clt_source_field_bytes(&source->fields[i]);
    pool->samples = bytes > 0 ? POOL_BYTES / bytes : 1;
    pool->samples = pool->samples < 1 ? 1 : pool->samples > LIKE_SAMPLES ? LIKE_SAMPLES : pool->samples;
    for (int i = 0; i < source->n_fields; i++) {
        size_t one = clt_source_field_bytes(&source->fields[i]);
        pool->field[i] = clt_arena_alloc(source->arena, one * (size_t)pool->samples);
        if (!pool->field[i])
            return CLT_ENOMEM;
        for (int64_t k = 0; k < pool->samples; k++)
            fill_sample(&source->fields[i], i, k, pool->field[i] + one * (size_t)k);
    }
    source->state = pool;
    return CLT_OK;
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const like_pool *pool = source->state;
    size_t one = clt_source_field_bytes(&source->fields[field]);
    memcpy(dst, pool->field[field] + one * (size_t)(index % pool->samples), one);
    return CLT_OK;
}

static clt_status like_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

/* No file is read to check values, since samples are drawn within bounds. */
static clt_status like_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                   int64_t ignore, bool *done)
{
    (void)has_ignore;
    (void)ignore;
    *done = (int64_t)largest_of(&source->fields[field]) < bound;
    return CLT_OK;
}

static const clt_config_part like_format = {.name = "like",
                                            .help = "random samples of another source's shapes"};
static const clt_source_type like_type = {
    .format = &like_format, .read = like_read, .check_bound = like_check_bound};

static clt_status shapes_alone(const clt_config *config, const clt_source_type *type, clt_source *source)
{
    CLT_SCOPED(clt_tokenizer) *tokenizer = NULL;
    CLT_TRY(clt_tokenizer_open_config(config, &tokenizer));
    return type->shapes(config, tokenizer, LIKE_SAMPLES, source);
}

static clt_status shapes_of_files(const clt_config *config, clt_source *source)
{
    CLT_SCOPED(clt_source) *model = NULL;
    CLT_TRY(clt_source_open(config, CLT_SPLIT_TRAIN, &model));
    source->n_fields = model->n_fields;
    source->scale = model->scale;
    source->mean = model->mean;
    source->std = model->std;
    source->channels = model->channels;
    memcpy(source->channel_mean, model->channel_mean, sizeof source->channel_mean);
    memcpy(source->channel_std, model->channel_std, sizeof source->channel_std);
    for (int i = 0; i < model->n_fields; i++) {
        source->fields[i] = model->fields[i];
        source->fields[i].name = clt_arena_strdup(source->arena, model->fields[i].name);
        if (!source->fields[i].name)
            return CLT_ENOMEM;
    }
    return CLT_OK;
}

bool clt_source_like_needs_no_files(const clt_config *config)
{
    const clt_source_type *type = clt_source_type_of(config);
    return type->shapes && (!type->shapes_known || type->shapes_known(config));
}

clt_status clt_source_open_like(const clt_config *config, clt_source **out)
{
    CLT_SCOPED(clt_source) *source = NULL;
    *out = NULL;
    CLT_TRY(clt_source_create(&like_type, &source));
    if (clt_source_like_needs_no_files(config))
        CLT_TRY(shapes_alone(config, clt_source_type_of(config), source));
    else
        CLT_TRY(shapes_of_files(config, source));
    source->samples = LIKE_SAMPLES;
    source->description = "random samples";
    CLT_TRY(make_pool(source));
    *out = CLT_TAKE(source);
    return CLT_OK;
}
