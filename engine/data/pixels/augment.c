/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the random choices of augmentation. Random numbers are words of Philox blocks, numbered by the
 * sample's index. Each kind of choice has its own stream, so that one never changes another. */
#include "engine/data/pixels/augment.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"

/* Streams (op ids); each stream has BLOCKS blocks of four words for a sample. */
enum { STREAM_CROP, STREAM_FLIP, STREAM_COLOR, STREAM_MIX };
#define BLOCKS 16
#define CROP_TRIES 10

typedef struct random_words {
    clt_draw draw;
    uint32_t stream;
    uint64_t next, end;
    uint32_t word[4];
} random_words;

static random_words words_of(clt_draw draw, uint32_t stream, int64_t index)
{
    return (random_words){.draw = draw, .stream = stream, .next = (uint64_t)index * 4 * BLOCKS};
}

/* The next number in [0, 1). */
static double uniform(random_words *r)
{
    if (r->next % 4 == 0)
        clt_rng_block(r->draw.seed, CLT_RNG_AUGMENT, r->stream, r->draw.epoch, r->next / 4, r->word);
    return (double)clt_rng_uniform(r->word[r->next++ % 4]);
}

static double between(random_words *r, double low, double high)
{
    return low + (high - low) * uniform(r);
}

/* A whole number in 0..n-1. */
static int whole(random_words *r, int n)
{
    int at = (int)(uniform(r) * n);
    return at < n ? at : n - 1;
}

/* --- config --- */

static clt_status read_range(const clt_config *config, const char *key, double out[2])
{
    if (clt_config_list_count(config, key) != 2 ||
        clt_config_list_float(config, key, 0) > clt_config_list_float(config, key, 1))
        CLT_FAIL(CLT_ECONFIG, "reading %s: it takes two numbers, the smaller one first", key);
    out[0] = clt_config_list_float(config, key, 0);
    out[1] = clt_config_list_float(config, key, 1);
    return CLT_OK;
}

static clt_status read_size(const clt_config *config, int width, int height, clt_augment *a)
{
    int n = clt_config_list_count(config, "data.size");
    if (n > 2)
        CLT_FAIL(CLT_ECONFIG, "reading data.size: %d numbers; it takes height and width, or one for both", n);
    a->height = n > 0 ? (int)clt_config_list_int(config, "data.size", 0) : height ? height : 224;
    a->width = n > 1   ? (int)clt_config_list_int(config, "data.size", 1)
               : n > 0 ? a->height
               : width ? width
                       : 224;
    return CLT_OK;
}

/* The length of the shorter side before cropping: data.resize or, if it is 0, its default. */
static int read_resize(const clt_config *config, bool stored, const clt_augment *a)
{
    int given = (int)clt_config_int(config, "data.resize"),
        longer = a->height > a->width ? a->height : a->width;
    if (given > 0 || stored)
        return given;
    return a->crop == CLT_CROP_PAD ? longer : (longer * 8 + 6) / 7;
}

clt_status clt_augment_read(const clt_config *config, clt_split split, int width, int height, clt_augment *a)
{
    const char *crop = clt_config_string(config, "data.crop");
    bool stored = width > 0;
    *a = (clt_augment){.crop = CLT_CROP_CENTER};
    CLT_TRY(read_size(config, width, height, a));
    CLT_TRY(read_range(config, "data.crop_scale", a->scale));
    CLT_TRY(read_range(config, "data.crop_ratio", a->ratio));
    if (strcmp(crop, "resized") == 0 || (strcmp(crop, "auto") == 0 && !stored))
        a->crop = CLT_CROP_RESIZED;
    else if (strcmp(crop, "pad") == 0)
        a->crop = CLT_CROP_PAD;
    bool train = split == CLT_SPLIT_TRAIN;
    /* With crop pad, evaluation takes stored images unchanged, or resized to the size of a sample. */
    a->resize = read_resize(config, stored, a);
    if (!train)
        a->crop = CLT_CROP_CENTER;
    if (!train && a->resize == 0 && (a->width != width || a->height != height))
        a->resize = a->width > a->height ? a->width : a->height;
    a->mixup = train ? clt_config_float(config, "data.mixup") : 0;
    a->cutmix = train ? clt_config_float(config, "data.cutmix") : 0;
    if (!train)
        return CLT_OK;
    a->padding = (int)clt_config_int(config, "data.padding");
    a->flip = clt_config_float(config, "data.flip");
    a->brightness = clt_config_float(config, "data.brightness");
    a->contrast = clt_config_float(config, "data.contrast");
    a->saturation = clt_config_float(config, "data.saturation");
    a->hue = clt_config_float(config, "data.hue");
    return CLT_OK;
}

bool clt_augment_changes(const clt_augment *a, int width, int height)
{
    return a->crop != CLT_CROP_CENTER || a->width != width || a->height != height || a->flip > 0 ||
           a->resize > 0;
}

/* --- choosing the part of an image --- */

/* The size of an image whose shorter side becomes `shorter`, as torchvision's Resize computes it. */
static void resized(int shorter, int width, int height, int *new_width, int *new_height)
{
    *new_width = width <= height ? shorter : (int)((int64_t)shorter * width / height);
    *new_height = height <= width ? shorter : (int)((int64_t)shorter * height / width);
    *new_width = *new_width < 1 ? 1 : *new_width;
    *new_height = *new_height < 1 ? 1 : *new_height;
}

/* torchvision's RandomResizedCrop: draws a share of the area and a ratio of the sides until the part fits
 * into the image. After CROP_TRIES tries, takes the largest part in the middle whose ratio is allowed. */
static clt_box random_part(const clt_augment *a, random_words *r, int width, int height)
{
    double area = (double)width * height, low = log(a->ratio[0]), high = log(a->ratio[1]);
    for (int i = 0; i < CROP_TRIES; i++) {
        double target = area * between(r, a->scale[0], a->scale[1]), ratio = exp(between(r, low, high));
        int w = (int)lrint(sqrt(target * ratio)), h = (int)lrint(sqrt(target / ratio));
        double x = uniform(r), y = uniform(r);
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        int left = (int)(x * (width - w + 1)), top = (int)(y * (height - h + 1));
        return (clt_box){left > width - w ? width - w : left, top > height - h ? height - h : top, w, h};
    }
    double ratio = (double)width / height;
    int w = width, h = height;
    if (ratio < a->ratio[0])
        h = (int)lrint(width / a->ratio[0]);
    else if (ratio > a->ratio[1])
        w = (int)lrint(height * a->ratio[1]);
    w = w < 1 ? 1 : w > width ? width : w;
    h = h < 1 ? 1 : h > height ? height : h;
    return (clt_box){(width - w) / 2, (height - h) / 2, w, h};
}

/* The start of a window in the middle of `whole_`; halves are rounded to even, as in torchvision's
 * CenterCrop. */
static int middle(int whole_, int size)
{
    return whole_ >= size ? (int)lrint((whole_ - size) / 2.0) : -((size - whole_) / 2);
}

clt_cut clt_augment_cut(const clt_augment *a, clt_draw draw, int64_t index, int width, int height)
{
    random_words r = words_of(draw, STREAM_CROP, index), f = words_of(draw, STREAM_FLIP, index);
    clt_cut cut = {.box = {0, 0, width, height}, .width = width, .height = height};
    cut.window = (clt_box){0, 0, a->width, a->height};
    if (a->crop == CLT_CROP_RESIZED) {
        cut.box = random_part(a, &r, width, height);
        cut.width = a->width;
        cut.height = a->height;
    } else {
        if (a->resize > 0)
            resized(a->resize, width, height, &cut.width, &cut.height);
        cut.window.x = middle(cut.width, a->width);
        cut.window.y = middle(cut.height, a->height);
    }
    if (a->crop == CLT_CROP_PAD) {
        int wide = cut.width + 2 * a->padding - a->width, high = cut.height + 2 * a->padding - a->height;
        cut.window.x = wide < 0 ? cut.window.x : whole(&r, wide + 1) - a->padding;
        cut.window.y = high < 0 ? cut.window.y : whole(&r, high + 1) - a->padding;
    }
    cut.flip = a->flip > 0 && uniform(&f) < a->flip;
    return cut;
}

/* --- colours --- */

void clt_augment_colors(const clt_augment *a, clt_draw draw, int64_t index, uint8_t *planes)
{
    random_words r = words_of(draw, STREAM_COLOR, index);
    size_t n = (size_t)a->width * (size_t)a->height;
    const double spread[3] = {a->brightness, a->contrast, a->saturation};
    int order[4] = {0, 1, 2, 3};
    float factor[4];
    if (!(a->brightness > 0 || a->contrast > 0 || a->saturation > 0 || a->hue > 0))
        return;
    for (int i = 3; i > 0; i--) {
        int other = whole(&r, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < 3; i++)
        factor[i] = (float)between(&r, spread[i] < 1 ? 1 - spread[i] : 0, 1 + spread[i]);
    factor[3] = (float)between(&r, -a->hue, a->hue);
    for (int i = 0; i < 4; i++) {
        int what = order[i];
        if (what == 0 && a->brightness > 0)
            clt_color_brightness(planes, n, factor[0]);
        else if (what == 1 && a->contrast > 0)
            clt_color_contrast(planes, n, factor[1]);
        else if (what == 2 && a->saturation > 0)
            clt_color_saturation(planes, n, factor[2]);
        else if (what == 3 && a->hue > 0)
            clt_color_hue(planes, n, factor[3]);
    }
}

/* --- mixtures --- */

bool clt_augment_mixes(const clt_augment *a)
{
    return a->mixup > 0 || a->cutmix > 0;
}

static double normal(random_words *r)
{
    double u = 1 - uniform(r), v = uniform(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The logarithm of a number drawn from the gamma distribution (Marsaglia and Tsang 2000; for alpha below 1,
 * a number drawn for alpha + 1 is multiplied by a power of a uniform one). A logarithm, because the number
 * itself may be too small for a double. */
static double log_gamma_draw(random_words *r, double alpha)
{
    double shift = alpha < 1 ? log(1 - uniform(r)) / alpha : 0, d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3,
           c = 1 / sqrt(9 * d);
    for (int i = 0; i < 6; i++) { /* a try succeeds with a probability above 95 % */
        double x = normal(r), v = 1 + c * x, u = 1 - uniform(r);
        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + shift;
    }
    return log(d) + shift;
}

static double beta_draw(random_words *r, double alpha)
{
    double a = log_gamma_draw(r, alpha), b = log_gamma_draw(r, alpha);
    return 1 / (1 + exp(b - a));
}

clt_mix clt_augment_mix(const clt_augment *a, clt_draw draw, int64_t index, int64_t samples)
{
    clt_mix mix = {.partner = index, .share = 1.0f};
    random_words r = words_of(draw, STREAM_MIX, index);
    if (!clt_augment_mixes(a))
        return mix;
    mix.on = true;
    /* two words, so that any sample of a large set can be the partner */
    double high = floor(uniform(&r) * 16777216.0), low = uniform(&r);
    mix.partner = (int64_t)((high + low) / 16777216.0 * (double)samples);
    mix.partner = mix.partner < samples ? mix.partner : samples - 1;
    mix.cut = a->cutmix > 0 && (!(a->mixup > 0) || uniform(&r) < 0.5);
    double share = beta_draw(&r, mix.cut ? a->cutmix : a->mixup);
    mix.share = (float)share;
    if (mix.cut) {
        double side = sqrt(1 - share);
        int w = (int)(a->width * side), h = (int)(a->height * side), x = whole(&r, a->width),
            y = whole(&r, a->height);
        int left = x - w / 2, right = left + w, top = y - h / 2, bottom = top + h;
        left = left < 0 ? 0 : left;
        top = top < 0 ? 0 : top;
        right = right > a->width ? a->width : right;
        bottom = bottom > a->height ? a->height : bottom;
        mix.box = (clt_box){left, top, right - left, bottom - top};
        mix.share = (float)(1 - (double)mix.box.width * mix.box.height / ((double)a->width * a->height));
    }
    return mix;
}

void clt_augment_blend(const clt_augment *a, const clt_mix *mix, uint8_t *x, const uint8_t *partner)
{
    size_t plane = (size_t)a->width * (size_t)a->height;
    float share = mix->share, rest = 1.0f - share;
    for (size_t i = 0; !mix->cut && i < 3 * plane; i++)
        x[i] = (uint8_t)((float)x[i] * share + (float)partner[i] * rest + 0.5f);
    for (size_t c = 0; mix->cut && c < 3; c++)
        for (int y = mix->box.y; y < mix->box.y + mix->box.height; y++) {
            size_t at = c * plane + (size_t)y * (size_t)a->width + (size_t)mix->box.x;
            memcpy(x + at, partner + at, (size_t)mix->box.width);
        }
}
