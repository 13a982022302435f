/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes samples of images: augmentation, mixtures, and replacement of bad samples. Reading is a pure
 * function of index and draw: a bad sample is replaced by the next good one, whatever was read before. */
#include "engine/data/images/image_source.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/arrays/source_pair.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

enum { FIELD_X, FIELD_Y, FIELD_Y2, FIELD_SHARE };

static clt_image_state *state_of(const clt_source *source)
{
    return source->state;
}

static bool mixes(const clt_config *config)
{
    return clt_config_float(config, "data.mixup") > 0 || clt_config_float(config, "data.cutmix") > 0;
}

/* Sets the fields. `largest`: number of the last class. `alone` and `mixed`: as in clt_image_state. */
static void make_fields(clt_source *source, const clt_augment *a, int64_t largest, bool alone, bool mixed)
{
    const int64_t shape[3] = {3, a->height, a->width};
    source->fields[FIELD_X] = (clt_source_field){"x", CLT_U8, clt_shape_make(3, shape), false, 0};
    source->fields[FIELD_Y] = (clt_source_field){"y", CLT_I32, clt_shape_make(0, NULL), true, largest};
    source->fields[FIELD_Y2] = (clt_source_field){"y2", CLT_I32, clt_shape_make(0, NULL), true, largest};
    source->fields[FIELD_SHARE] = (clt_source_field){"share", CLT_F32, clt_shape_make(0, NULL), false, 0};
    source->n_fields = alone ? 1 : mixed ? 4 : 2;
}

bool clt_images_shapes_known(const clt_config *config)
{
    return clt_config_int(config, "model.classes") > 0;
}

clt_status clt_images_shapes(clt_source *source, const clt_config *config, int width, int height)
{
    clt_augment a;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_augment_read(config, CLT_SPLIT_TRAIN, width, height, &a));
    make_fields(source, &a, clt_config_int(config, "model.classes") - 1, false, mixes(config));
    return CLT_OK;
}

clt_status clt_images_begin(clt_source *source, clt_image_state *state, const clt_config *config,
                            clt_split split, int width, int height)
{
    clt_augment *a = &state->augment;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_augment_read(config, state->alone ? CLT_SPLIT_EVAL : split, width, height, a));
    state->once = split != CLT_SPLIT_TRAIN;
    state->skips = strcmp(clt_config_string(config, "data.on_bad_sample"), "skip") == 0;
    state->mixed = !state->alone && mixes(config);
    pthread_mutex_init(&state->lock, NULL);
    state->lock_made = true;
    CLT_TRY(clt_alloc(&state->bad, (size_t)source->samples / 8 + 1, 1, "a list of bad samples"));
    make_fields(source, a, source->n_class_names - 1, state->alone, state->mixed);
    return CLT_OK;
}

/* --- images that are much smaller than samples --- */

#define LOOKED_AT 9  /* number of images to look at, spaced evenly */
#define ENLARGED 2.0 /* if samples are larger than images by this factor, there is a warning */

typedef struct image_size {
    int width, height;
} image_size;

static clt_status size_of(const clt_source *source, int64_t index, image_size *out)
{
    clt_stored_image stored;
    clt_encoded encoded;
    CLT_TRY(state_of(source)->get(source, index, &stored));
    *out = (image_size){stored.width, stored.height};
    if (stored.kind != CLT_STORED_ENCODED)
        return CLT_OK;
    CLT_TRY(clt_image_header(stored.bytes, stored.size, &encoded));
    *out = (image_size){encoded.width, encoded.height};
    return CLT_OK;
}

static int by_height(const void *a, const void *b)
{
    return ((const image_size *)a)->height - ((const image_size *)b)->height;
}

/* --- PNG files of 16 bits with values of fewer bits --- */

#define LOW 16 /* if only 12 of 16 bits are used, the upper 8 bits stay below this number */

static bool holds_low_bits(const clt_encoded *encoded, const clt_view *view)
{
    uint8_t most = 0;
    for (int y = 0; encoded->sixteen && y < view->height; y++)
        for (int x = 0; x < view->width; x++)
            for (int c = 0; c < 3; c++) {
                uint8_t value = view->pixels[(size_t)y * view->stride + (size_t)x * CLT_PIXEL + (size_t)c];
                most = value > most ? value : most;
            }
    return encoded->sixteen && most < LOW;
}

/* Counts a PNG of 16 bits that uses only low bits; the first one causes a warning. */
static void note_low_bits(const clt_source *source, int64_t index)
{
    clt_image_state *state = state_of(source);
    CLT_SCOPED(clt_str) where = {0};
    pthread_mutex_lock(&state->lock);
    bool first = state->n_low++ == 0;
    pthread_mutex_unlock(&state->lock);
    if (first)
        source->type->locate(source, index, FIELD_X, &where);
    if (first && where.text)
        CLT_WARN_ONCE(
            "image %s is a PNG of 16 bits whose values are below 4096, as if 12 bits or fewer were "
            "used: of 16 bits the upper 8 are read, so that it is almost black; write it with values up "
            "to 65535, or as 8 bits",
            where.text);
}

/* True if the image is a PNG of 16 bits that uses only low bits, which is then counted. */
static bool look_for_low_bits(const clt_source *source, int64_t index)
{
    clt_stored_image stored;
    clt_encoded encoded = {0};
    clt_view view;
    bool found =
        state_of(source)->get(source, index, &stored) == CLT_OK && stored.kind == CLT_STORED_ENCODED &&
        clt_image_header(stored.bytes, stored.size, &encoded) == CLT_OK && encoded.sixteen &&
        clt_image_decode(&encoded, (clt_box){0, 0, encoded.width, encoded.height}, 1, &view) == CLT_OK &&
        holds_low_bits(&encoded, &view);
    if (found)
        note_low_bits(source, index);
    return found;
}

void clt_images_warn_low_bits(const clt_source *source)
{
    int64_t n = source->samples < LOOKED_AT ? source->samples : LOOKED_AT;
    for (int64_t i = 0; i < n; i++)
        if (look_for_low_bits(source, i * source->samples / n))
            break;
    clt_error_clear(); /* no failure: bad images are reported when they are read */
}

void clt_images_advise(const clt_source *source)
{
    const clt_augment *a = &state_of(source)->augment;
    int64_t n = source->samples < LOOKED_AT ? source->samples : LOOKED_AT;
    image_size sizes[LOOKED_AT];
    int known = 0;
    for (int64_t i = 0; i < n; i++)
        known += size_of(source, i * source->samples / n, &sizes[known]) == CLT_OK;
    clt_images_warn_low_bits(source);
    clt_error_clear(); /* no failure: bad images are reported when they are read */
    if (known == 0)
        return;
    qsort(sizes, (size_t)known, sizeof *sizes, by_height);
    image_size middle = sizes[known / 2];
    double factor = (double)a->height / middle.height, across = (double)a->width / middle.width;
    factor = across < factor ? across : factor;
    if (factor >= ENLARGED)
        CLT_WARN_ONCE(
            "the images have about %d x %d pixels (height x width) and are enlarged to %d x %d, which costs "
            "time and adds nothing to see; set data.size=[%d,%d] to train on them as they are",
            middle.height, middle.width, a->height, a->width, middle.height, middle.width);
}

void clt_images_close(clt_source *source)
{
    clt_image_state *state = state_of(source);
    if (!state || !state->lock_made)
        return;
    if (state->once && state->n_bad > 0)
        CLT_WARN("%lld of %lld image%s cannot be read and were skipped (data.on_bad_sample skip; %s)",
                 (long long)state->n_bad, (long long)source->samples, CLT_PLURAL(source->samples),
                 source->description ? source->description : "");
    if (state->n_replaced > 0)
        CLT_WARN("%lld samples were replaced by the next ones, since %lld image%s cannot be read "
                 "(data.on_bad_sample skip; %s)",
                 (long long)state->n_replaced, (long long)state->n_bad, CLT_PLURAL(state->n_bad),
                 source->description ? source->description : "");
    if (state->n_low > 1)
        CLT_WARN_ONCE("%lld image%s are PNG files of 16 bits whose values are below 4096 (%s)",
                      (long long)state->n_low, CLT_PLURAL(state->n_low),
                      source->description ? source->description : "");
    pthread_mutex_destroy(&state->lock);
    free(state->bad);
}

/* --- one image --- */

static clt_status name_sample(const clt_source *source, int64_t index, clt_status status)
{
    CLT_SCOPED(clt_str) where = {0};
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    source->type->locate(source, index, FIELD_X, &where);
    return clt_fail_prefix(status, "reading image %s", where.text ? where.text : "");
}

/* The largest factor (1, 2, 4 or 8) by which a JPEG can be reduced when it is decoded, without the crop
 * having to be enlarged afterwards. */
static int shrink_of(const clt_augment *a, const clt_cut *cut)
{
    int shrink = 1;
    while (a->crop == CLT_CROP_RESIZED && shrink < 8 && cut->box.width >= 2 * shrink * cut->width &&
           cut->box.height >= 2 * shrink * cut->height)
        shrink *= 2;
    return shrink;
}

/* Copies the box out of an image that is stored as pixels. */
static clt_status stored_view(const clt_stored_image *image, clt_box box, clt_view *out)
{
    size_t plane = (size_t)image->width * (size_t)image->height;
    uint8_t *to = clt_image_scratch(CLT_SCRATCH_PIXELS, (size_t)box.width * (size_t)box.height * CLT_PIXEL);
    if (!to)
        return CLT_ENOMEM;
    *out = (clt_view){to, box.width, box.height, (size_t)box.width * CLT_PIXEL};
    bool planes = image->kind == CLT_STORED_PLANES;
    size_t step = planes ? 1 : 3, channel = planes ? plane : 1;
    for (int y = 0; y < box.height; y++) {
        const uint8_t *from =
            image->bytes + ((size_t)(box.y + y) * (size_t)image->width + (size_t)box.x) * step;
        for (int x = 0; x < box.width; x++, from += step, to += CLT_PIXEL) {
            to[0] = from[0];
            to[1] = from[channel];
            to[2] = from[2 * channel];
            to[3] = 255;
        }
    }
    return CLT_OK;
}

/* If nothing is resized, narrows the box to the window, so that only the window is decoded. */
static clt_cut narrowed(clt_cut cut)
{
    if (cut.width != cut.box.width || cut.height != cut.box.height)
        return cut;
    int left = cut.window.x > 0 ? cut.window.x : 0, top = cut.window.y > 0 ? cut.window.y : 0;
    int right = cut.window.x + cut.window.width, bottom = cut.window.y + cut.window.height;
    right = right < cut.width ? right : cut.width;
    bottom = bottom < cut.height ? bottom : cut.height;
    if (left >= right || top >= bottom)
        return cut;
    cut.box = (clt_box){cut.box.x + left, cut.box.y + top, right - left, bottom - top};
    cut.width = right - left;
    cut.height = bottom - top;
    cut.window.x -= left;
    cut.window.y -= top;
    return cut;
}

/* Decodes and resizes an image. */
static clt_status make_planes(const clt_augment *a, const clt_stored_image *stored, int64_t index,
                              clt_draw draw, uint8_t *planes)
{
    clt_encoded encoded = {0};
    clt_view view;
    bool is_encoded = stored->kind == CLT_STORED_ENCODED;
    if (is_encoded)
        CLT_TRY(clt_image_header(stored->bytes, stored->size, &encoded));
    clt_cut cut = narrowed(clt_augment_cut(a, draw, index, is_encoded ? encoded.width : stored->width,
                                           is_encoded ? encoded.height : stored->height));
    if (is_encoded)
        CLT_TRY(clt_image_decode(&encoded, cut.box, shrink_of(a, &cut), &view));
    else
        CLT_TRY(stored_view(stored, cut.box, &view));
    return clt_image_resize(&view, cut.width, cut.height, cut.window, cut.flip, planes);
}

static clt_status make_sample(const clt_source *source, int64_t index, clt_draw draw, uint8_t *planes)
{
    const clt_image_state *state = state_of(source);
    const clt_augment *a = &state->augment;
    clt_stored_image stored;
    CLT_TRY(state->get(source, index, &stored));
    clt_status status = make_planes(a, &stored, index, draw, planes);
    if (stored.mapping) {
        clt_map_used(stored.mapping);
        if (status != CLT_OK) /* if the file became shorter meanwhile, that is the reason */
            CLT_TRY(clt_map_check_one(stored.mapping));
        if (status != CLT_OK && clt_remote_wait_is_over())
            CLT_FAIL(CLT_EINTERRUPTED, "the image is not needed any more");
    }
    CLT_TRY(status);
    clt_augment_colors(a, draw, index, planes);
    return CLT_OK;
}

/* --- bad samples --- */

static bool is_known_bad(clt_image_state *state, int64_t index)
{
    pthread_mutex_lock(&state->lock);
    bool bad = state->bad[index / 8] >> (index % 8) & 1;
    pthread_mutex_unlock(&state->lock);
    return bad;
}

static void note_bad(clt_image_state *state, int64_t index)
{
    pthread_mutex_lock(&state->lock);
    bool known = state->bad[index / 8] >> (index % 8) & 1;
    state->bad[index / 8] |= (uint8_t)(1 << index % 8);
    state->n_bad += !known;
    pthread_mutex_unlock(&state->lock);
    if (!known)
        CLT_WARN("%s; %s (data.on_bad_sample skip)", clt_error_text(),
                 state->once ? "it is skipped" : "the next sample takes its place");
}

bool clt_images_left_out(const clt_source *source, int64_t index)
{
    clt_image_state *state = state_of(source);
    return state->once && state->skips && is_known_bad(state, index);
}

/* Makes sample `index` of data that is read once. If it is bad and bad samples are skipped, it becomes zeros
 * and is not counted; a replacement would be counted twice. */
static clt_status make_or_leave_out(const clt_source *source, int64_t index, clt_draw draw, uint8_t *planes)
{
    clt_image_state *state = state_of(source);
    bool bad = state->skips && is_known_bad(state, index);
    clt_status status = bad ? CLT_OK : name_sample(source, index, make_sample(source, index, draw, planes));
    if (status == CLT_EDATA && state->skips) {
        note_bad(state, index);
        clt_error_clear();
        status = CLT_OK;
        bad = true;
    }
    if (bad)
        memset(planes, 0, 3 * (size_t)state->augment.width * (size_t)state->augment.height);
    return status;
}

/* Makes sample *index. If it is bad and bad samples are skipped, *index becomes the next good sample. */
static clt_status make_good(const clt_source *source, int64_t *index, clt_draw draw, uint8_t *planes)
{
    clt_image_state *state = state_of(source);
    if (state->once)
        return make_or_leave_out(source, *index, draw, planes);
    for (int64_t tries = 0; tries < source->samples; tries++) {
        int64_t at = (*index + tries) % source->samples;
        if (state->skips && is_known_bad(state, at))
            continue;
        clt_status status = name_sample(source, at, make_sample(source, at, draw, planes));
        if (status == CLT_EDATA && state->skips) {
            note_bad(state, at);
            continue;
        }
        if (status == CLT_OK && tries > 0) {
            pthread_mutex_lock(&state->lock);
            state->n_replaced++;
            pthread_mutex_unlock(&state->lock);
        }
        *index = at;
        return status;
    }
    CLT_FAIL(CLT_EDATA, "reading images: none of the %lld image%s can be read; each was named above",
             (long long)source->samples, CLT_PLURAL(source->samples));
}

/* --- a sample --- */

clt_status clt_images_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const clt_image_state *state = state_of(source);
    const clt_augment *a = &state->augment;
    size_t bytes = 3 * (size_t)a->width * (size_t)a->height;
    clt_mix mix = clt_augment_mix(a, draw, index, source->samples);
    int64_t first = index, second = mix.partner;
    if (to[FIELD_X] || state->skips) {
        uint8_t *x = to[FIELD_X] ? to[FIELD_X] : clt_image_scratch(CLT_SCRATCH_SAMPLE, bytes);
        if (!x)
            return CLT_ENOMEM;
        CLT_TRY(make_good(source, &first, draw, x));
        if (mix.on) {
            uint8_t *partner = clt_image_scratch(CLT_SCRATCH_PARTNER, bytes);
            if (!partner)
                return CLT_ENOMEM;
            CLT_TRY(make_good(source, &second, draw, partner));
            clt_augment_blend(a, &mix, x, partner);
        }
    }
    if (state->alone)
        return CLT_OK;
    int32_t y = state->label(source, first), y2 = mix.on ? state->label(source, second) : y;
    if (to[FIELD_Y])
        memcpy(to[FIELD_Y], &y, sizeof y);
    if (state->mixed && to[FIELD_Y2])
        memcpy(to[FIELD_Y2], &y2, sizeof y2);
    if (state->mixed && to[FIELD_SHARE])
        memcpy(to[FIELD_SHARE], &mix.share, sizeof mix.share);
    return CLT_OK;
}

bool clt_images_class_of(const clt_source *source, int64_t index, clt_draw draw, int field, int32_t *value)
{
    const clt_image_state *state = state_of(source);
    if (state->alone || (field != FIELD_Y && field != FIELD_Y2))
        return false;
    clt_mix mix = clt_augment_mix(&state->augment, draw, index, source->samples);
    *value = state->label(source, field == FIELD_Y2 && mix.on ? mix.partner : index);
    return true;
}

clt_status clt_images_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore, bool *done)
{
    (void)has_ignore;
    (void)ignore;
    *done = true;
    if (source->fields[field].is_index && source->fields[field].max_value >= bound)
        CLT_FAIL(CLT_EDATA,
                 "checking field \"%s\" of the data: it has %lld classes (%s ... %s), the model takes %lld; "
                 "give the model one output for each class",
                 source->fields[field].name, (long long)source->n_class_names, source->class_names[0],
                 source->class_names[source->n_class_names - 1], (long long)bound);
    return CLT_OK;
}

static clt_status check_image(const clt_source *source, int64_t index, clt_stored_image *stored)
{
    const clt_image_state *state = state_of(source);
    clt_encoded encoded;
    clt_view view;
    CLT_TRY(state->get(source, index, stored));
    if (state->check)
        CLT_TRY(state->check(source, index));
    if (stored->kind != CLT_STORED_ENCODED)
        return CLT_OK;
    CLT_TRY(clt_image_header(stored->bytes, stored->size, &encoded));
    CLT_TRY(clt_image_decode(&encoded, (clt_box){0, 0, encoded.width, encoded.height}, 1, &view));
    if (holds_low_bits(&encoded, &view))
        note_low_bits(source, index);
    return CLT_OK;
}

clt_status clt_images_check_sample(const clt_source *source, int64_t index)
{
    clt_stored_image stored = {0};
    clt_status status = check_image(source, index, &stored);
    clt_status whole = stored.mapping ? clt_map_check_one(stored.mapping) : CLT_OK;
    return name_sample(source, index, whole == CLT_OK ? status : whole);
}

clt_status clt_images_match(const char *const *names, int64_t count, const char *const *training,
                            int64_t training_count, int32_t *number)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        while (at < training_count && strcmp(names[i], training[at]) != 0)
            at++;
        if (at == training_count)
            CLT_FAIL(
                CLT_EDATA,
                "matching classes: the evaluation data has a class '%s', the training data has none of that "
                "name among its %lld; use the same folders in both",
                names[i], (long long)training_count);
        number[i] = (int32_t)at;
    }
    return CLT_OK;
}

void clt_images_rules(clt_config_rules *rules)
{
    static const char *const ranges[] = {"data.crop_scale", "data.crop_ratio"};
    for (int i = 0; i < 2; i++)
        if (clt_rules_usable(rules, ranges[i]) && (clt_config_list_count(rules->config, ranges[i]) != 2 ||
                                                   clt_config_list_float(rules->config, ranges[i], 0) >
                                                       clt_config_list_float(rules->config, ranges[i], 1)))
            clt_rules_broken(rules, ranges[i], "it takes two numbers, the smaller one first");
    if (clt_rules_usable(rules, "data.size") && clt_config_list_count(rules->config, "data.size") > 2)
        clt_rules_broken(rules, "data.size", "it takes height and width, or one number for both");
}
