/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes colours with torchvision's formulas for tensors of bytes (functional.adjust_brightness and so on):
 * each result is clamped to 0..255 and truncated to a whole number. It knows only planes of bytes. */
#include <math.h>

#include "engine/data/pixels/augment.h"

static uint8_t cut(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t blend(float a, float b, float factor)
{
    return cut(factor * a + (1.0f - factor) * b);
}

static uint8_t gray(const uint8_t *planes, size_t n, size_t i)
{
    return (uint8_t)(0.2989f * planes[i] + 0.587f * planes[n + i] + 0.114f * planes[2 * n + i]);
}

void clt_color_brightness(uint8_t *planes, size_t n, float factor)
{
    for (size_t i = 0; i < 3 * n; i++)
        planes[i] = blend(planes[i], 0, factor);
}

void clt_color_contrast(uint8_t *planes, size_t n, float factor)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += gray(planes, n, i);
    float mean = (float)((double)sum / (double)n);
    for (size_t i = 0; i < 3 * n; i++)
        planes[i] = blend(planes[i], mean, factor);
}

void clt_color_saturation(uint8_t *planes, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++) {
        float g = gray(planes, n, i);
        for (size_t c = 0; c < 3; c++)
            planes[c * n + i] = blend(planes[c * n + i], g, factor);
    }
}

/* The hue of a colour as a part of a turn, 0 for grays. */
static float hue_of(float r, float g, float b, float most, float spread)
{
    if (!(spread > 0))
        return 0;
    float h = most <= r ? (g - b) / spread : most <= g ? 2.0f + (b - r) / spread : 4.0f + (r - g) / spread;
    h = h / 6.0f;
    return h - floorf(h);
}

void clt_color_hue(uint8_t *planes, size_t n, float turn)
{
    for (size_t i = 0; i < n; i++) {
        float r = planes[i] / 255.0f, g = planes[n + i] / 255.0f, b = planes[2 * n + i] / 255.0f;
        float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b)), spread = most - least;
        float h = hue_of(r, g, b, most, spread) + turn, s = most > 0 ? spread / most : 0;
        h = (h - floorf(h)) * 6.0f;
        float sector = floorf(h), f = h - sector;
        float p = most * (1.0f - s), q = most * (1.0f - s * f), t = most * (1.0f - s * (1.0f - f));
        switch ((int)sector % 6) {
        case 0:
            r = most, g = t, b = p;
            break;
        case 1:
            r = q, g = most, b = p;
            break;
        case 2:
            r = p, g = most, b = t;
            break;
        case 3:
            r = p, g = q, b = most;
            break;
        case 4:
            r = t, g = p, b = most;
            break;
        default:
            r = most, g = p, b = q;
            break;
        }
        /* torchvision's conversion to bytes: the whole part of v * (256 - 0.001) */
        planes[i] = cut(r * 255.999f);
        planes[n + i] = cut(g * 255.999f);
        planes[2 * n + i] = cut(b * 255.999f);
    }
}
