/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic data that can be learned. Each sample is a pure function of the seed and its index; nothing
 * is stored. With classes, x is the mean of its class plus noise; without, y is a fixed linear map of x
 * plus noise. Training and evaluation draw different samples of the same distribution. */
#include "engine/data/arrays/source_pair.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/base/text.h"

/* Random streams of CLT_RNG_DATA, one for each purpose. */
enum { STREAM_LABEL = 1, STREAM_MEAN = 2, STREAM_X = 3, STREAM_MAP = 4, STREAM_Y = 5 };

#define SQRT_12 3.46410161513775458705f

typedef struct synthetic_state {
    uint64_t seed;
    uint32_t split; /* part of the random streams' key that differs between training and evaluation */
    int64_t classes;
    int64_t x_elements, y_elements;
    float noise;
    double scale, mean, std; /* normalisation of x, from the config */
    float *map;              /* (x_elements, y_elements), regression only */
} synthetic_state;

/* A uniform random number with mean 0 and variance 1, which is as good as a normal here and far cheaper. */
static float spread(uint32_t word)
{
    return (clt_rng_uniform(word) - 0.5f) * SQRT_12;
}

static uint64_t blocks(int64_t elements)
{
    return ((uint64_t)elements + 3) / 4;
}

static int64_t label_of(const synthetic_state *state, int64_t index)
{
    uint32_t word = clt_rng_u32(state->seed, CLT_RNG_DATA, STREAM_LABEL, state->split, (uint64_t)index);
    return (int64_t)((uint64_t)word * (uint64_t)state->classes >> 32);
}

/* Makes four neighbouring inputs of a sample, from x[4*block] on. */
static void x_block(const synthetic_state *state, int64_t index, int64_t label, uint64_t block, float out[4])
{
    uint32_t word[4];
    uint64_t per_sample = blocks(state->x_elements);
    clt_rng_block(state->seed, CLT_RNG_DATA, STREAM_X, state->split, (uint64_t)index * per_sample + block,
                  word);
    if (state->classes == 0) {
        for (int i = 0; i < 4; i++)
            out[i] = spread(word[i]);
        return;
    }
    uint32_t mean[4];
    clt_rng_block(state->seed, CLT_RNG_DATA, STREAM_MEAN, 0, (uint64_t)label * per_sample + block, mean);
    for (int i = 0; i < 4; i++)
        out[i] = spread(mean[i]) + state->noise * spread(word[i]);
}

static void read_x(const synthetic_state *state, int64_t index, float *dst)
{
    int64_t label = state->classes > 0 ? label_of(state, index) : 0;
    for (int64_t at = 0; at < state->x_elements; at += 4) {
        float x[4];
        x_block(state, index, label, (uint64_t)at / 4, x);
        for (int64_t i = 0; i < 4 && at + i < state->x_elements; i++)
            dst[at + i] = (float)(((double)x[i] * state->scale - state->mean) / state->std);
    }
}

static void read_labels(const synthetic_state *state, int64_t index, clt_dtype dtype, void *dst)
{
    int64_t label = label_of(state, index);
    for (int64_t i = 0; i < state->y_elements; i++) {
        int64_t value = (label + i) % state->classes;
        if (dtype == CLT_U8)
            ((uint8_t *)dst)[i] = (uint8_t)value;
        else
            ((int32_t *)dst)[i] = (int32_t)value;
    }
}

static void read_values(const synthetic_state *state, int64_t index, float *dst)
{
    for (int64_t i = 0; i < state->y_elements; i++) {
        uint64_t at = (uint64_t)index * (uint64_t)state->y_elements + (uint64_t)i;
        dst[i] = state->noise * spread(clt_rng_u32(state->seed, CLT_RNG_DATA, STREAM_Y, state->split, at));
    }
    for (int64_t at = 0; at < state->x_elements; at += 4) {
        float x[4];
        x_block(state, index, 0, (uint64_t)at / 4, x);
        for (int64_t j = 0; j < 4 && at + j < state->x_elements; j++) {
            const float *row = state->map + (at + j) * state->y_elements;
            for (int64_t i = 0; i < state->y_elements; i++)
                dst[i] += x[j] * row[i];
        }
    }
}

static clt_status make_map(synthetic_state *state)
{
    uint64_t count = 0;
    if (!clt_mul_u64((uint64_t)state->x_elements, (uint64_t)state->y_elements, &count) || count > INT32_MAX)
        CLT_FAIL(CLT_ECONFIG,
                 "making synthetic data: a map from %lld inputs to %lld targets is too large; give a smaller "
                 "data.shape or data.target_shape",
                 (long long)state->x_elements, (long long)state->y_elements);
    CLT_TRY(clt_alloc(&state->map, count, sizeof *state->map, "the map of the synthetic data"));
    float unit = (float)(1.0 / sqrt((double)state->x_elements));
    for (uint64_t i = 0; i < count; i += 4) {
        uint32_t word[4];
        clt_rng_block(state->seed, CLT_RNG_DATA, STREAM_MAP, 0, i / 4, word);
        for (uint64_t j = 0; j < 4 && i + j < count; j++)
            state->map[i + j] = spread(word[j]) * unit;
    }
    return CLT_OK;
}

static clt_status set_fields(clt_source *source, const synthetic_state *state, const clt_shape *x,
                             const clt_shape *y)
{
    char x_text[CLT_SHAPE_TEXT], y_text[CLT_SHAPE_TEXT];
    clt_dtype y_dtype = state->classes == 0 ? CLT_F32 : state->classes <= 256 ? CLT_U8 : CLT_I32;
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", CLT_F32, *x, false, 0};
    source->fields[1] = (clt_source_field){"y", y_dtype, *y, state->classes > 0, state->classes - 1};
    if (state->classes == 0)
        source->fields[1].max_value = 0;
    clt_shape_text(x, x_text, sizeof x_text);
    clt_shape_text(y, y_text, sizeof y_text);
    if (state->classes > 0)
        source->description = clt_arena_printf(
            source->arena, "synthetic: %lld sample%s of %s f32 in %lld class%s, noise %g, seed %llu",
            (long long)source->samples, CLT_PLURAL(source->samples), x_text, (long long)state->classes,
            CLT_PLURAL_ES(state->classes), (double)state->noise, (unsigned long long)state->seed);
    else
        source->description =
            clt_arena_printf(source->arena,
                             "synthetic: %lld sample%s of %s f32, targets %s a linear map of them, noise %g, "
                             "seed %llu",
                             (long long)source->samples, CLT_PLURAL(source->samples), x_text, y_text,
                             (double)state->noise, (unsigned long long)state->seed);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status synthetic_open(clt_source *source, const clt_config *config, clt_split split)
{
    clt_shape x, y;
    synthetic_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    CLT_TRY(clt_source_config_shape(config, "data.shape", &x));
    CLT_TRY(clt_source_config_shape(config, "data.target_shape", &y));
    if (x.ndim == 0)
        CLT_FAIL(
            CLT_ECONFIG,
            "making synthetic data: data.shape is not set; give the shape of a sample, for example [784]");
    state->seed = (uint64_t)clt_config_int(config, "train.seed");
    state->split = split == CLT_SPLIT_EVAL ? 1 : 0;
    state->classes = clt_config_int(config, "data.classes");
    state->noise = (float)clt_config_float(config, "data.noise");
    state->x_elements = clt_shape_elements(&x);
    state->y_elements = clt_shape_elements(&y);
    source->samples = clt_config_int(config, "data.samples");
    if (state->classes < 0 || state->classes > INT32_MAX || source->samples < 1 || !isfinite(state->noise))
        CLT_FAIL(CLT_ECONFIG,
                 "making synthetic data: %lld class%s, %lld sample%s and noise %g make no data set; check "
                 "data.classes, data.samples and data.noise",
                 (long long)state->classes, CLT_PLURAL_ES(state->classes), (long long)source->samples,
                 CLT_PLURAL(source->samples), (double)state->noise);
    CLT_TRY(clt_source_config_scale(source, config));
    state->scale = source->scale;
    state->mean = source->mean;
    state->std = source->std;
    source->scale = source->std = 1.0; /* floats are normalised here, integers on the device */
    source->mean = 0.0;
    if (state->classes == 0)
        CLT_TRY(make_map(state));
    return set_fields(source, state, &x, &y);
}

static void synthetic_close(clt_source *source)
{
    synthetic_state *state = source->state;
    if (state)
        free(state->map);
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const synthetic_state *state = source->state;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "making synthetic sample %lld of %lld", (long long)index,
                 (long long)source->samples);
    if (field == 0)
        read_x(state, index, dst);
    else if (state->classes > 0)
        read_labels(state, index, source->fields[1].dtype, dst);
    else
        read_values(state, index, dst);
    return CLT_OK;
}

static clt_status synthetic_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static bool synthetic_has_eval(const clt_config *config)
{
    (void)config;
    return true;
}

static const clt_config_key synthetic_keys[] = {
    CLT_KEY_INT("data.samples", 1, CLT_KEY_MANY, "1024", "samples", "number of different samples"),
    CLT_KEY_INTS("data.shape", 1, 2147483647, "[]", "shape of one input sample, such as [28, 28]"),
    CLT_KEY_INT("data.classes", 0, CLT_KEY_WIDE, "10", "",
                "number of classes; 0: targets are numbers (regression)"),
    CLT_KEY_INTS("data.target_shape", 1, 2147483647, "[]", "shape of one target; [] is a single number"),
    CLT_KEY_FLOAT("data.noise", 0, 1e30, "0.1", "", "standard deviation of the noise added"),
    CLT_KEY_END,
};
static const char *const synthetic_required[] = {"data.shape", NULL};

const clt_config_part clt_format_synthetic = {
    .name = "synthetic",
    .help = "made-up data that can be learned: data.classes groups of points, or with 0 classes a linear map",
    .keys = synthetic_keys,
    .required = synthetic_required,
    .check = clt_source_check_shape_rules,
};

const clt_source_type clt_source_synthetic = {
    .format = &clt_format_synthetic,
    .open = synthetic_open,
    .close = synthetic_close,
    .read = synthetic_read,
    .has_eval = synthetic_has_eval,
    .eval_hint = "nothing more",
};
