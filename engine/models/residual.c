/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds residual networks. In a block the shortcut's layers come first, then convolution, norm, sum and
 * ReLU, so that a plan can fuse a norm with the sum and the ReLU that follow it. */
#include "engine/models/residual.h"

#include <stdio.h>
#include <string.h>

#define STAGES 4
#define DEFAULT_WIDTH 64

static const struct residual_depth {
    int64_t depth;
    bool bottleneck;
    int64_t blocks[STAGES];
} depths[] = {
    {10, false, {1, 1, 1, 1}}, {18, false, {2, 2, 2, 2}},  {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},  {101, true, {3, 4, 23, 3}}, {152, true, {3, 8, 36, 3}},
};

#define EXPANSION 4 /* output channels of a bottleneck, as a multiple of its stage's channels */

static const struct residual_depth *find_depth(int64_t depth)
{
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
        if (depths[i].depth == depth)
            return &depths[i];
    return NULL;
}

bool clt_residual_known(int64_t depth, bool *bottleneck)
{
    const struct residual_depth *found = find_depth(depth);
    *bottleneck = found && found->bottleneck;
    return found != NULL;
}

/* Block number `index` of a stage with `planes` channels. */
typedef struct block {
    int stage;
    int64_t index, planes, stride;
} block;

static const char *block_name(char *buffer, const block *at, const char *rest)
{
    snprintf(buffer, 64, "layer%d.%lld.%s", at->stage + 1, (long long)at->index, rest);
    return buffer;
}

/* Adds a convolution and its norm, such as "conv1" and "bn1". */
static clt_status add_pair(clt_residual *r, const block *at, int number, const clt_conv_layer *layer,
                           bool zero)
{
    char name[64], rest[16];
    snprintf(rest, sizeof rest, "conv%d", number);
    CLT_TRY(clt_conv_net_conv(&r->net, block_name(name, at, rest), layer));
    snprintf(rest, sizeof rest, "bn%d", number);
    return clt_conv_net_norm(&r->net, block_name(name, at, rest), zero);
}

static clt_status add_relu(clt_residual *r, const block *at, const char *rest)
{
    char name[64];
    return clt_conv_net_next(&r->net, "relu", block_name(name, at, rest), NULL, NULL);
}

/* Adds the shortcut: the block's input, or a convolution of it if size or channels change. Afterwards net.at
 * is the block's input again. */
static clt_status add_shortcut(clt_residual *r, const block *at, int64_t out, int32_t *shortcut)
{
    char name[64];
    int32_t input = r->net.at;
    const clt_conv_layer layer = {.out = out, .kernel = 1, .stride = at->stride};
    *shortcut = input;
    if (at->stride == 1 && clt_graph_tensor(r->net.b.graph, input)->shape.dim[1] == out)
        return CLT_OK;
    CLT_TRY(clt_conv_net_conv(&r->net, block_name(name, at, "downsample.0"), &layer));
    CLT_TRY(clt_conv_net_norm(&r->net, block_name(name, at, "downsample.1"), false));
    *shortcut = r->net.at;
    r->net.at = input;
    return CLT_OK;
}

static clt_status add_basic(clt_residual *r, const block *at)
{
    const clt_conv_layer first = {.out = at->planes, .kernel = 3, .stride = at->stride},
                         second = {.out = at->planes, .kernel = 3, .stride = 1};
    CLT_TRY(add_pair(r, at, 1, &first, false));
    CLT_TRY(add_relu(r, at, "relu1"));
    return add_pair(r, at, 2, &second, r->zero_init);
}

static clt_status add_bottleneck(clt_residual *r, const block *at)
{
    int64_t width = at->planes * r->width_per_group / r->width * r->groups;
    const clt_conv_layer narrow = {.out = width, .kernel = 1, .stride = 1},
                         window = {.out = width, .kernel = 3, .stride = at->stride, .groups = r->groups},
                         wide = {.out = at->planes * EXPANSION, .kernel = 1, .stride = 1};
    CLT_TRY(add_pair(r, at, 1, &narrow, false));
    CLT_TRY(add_relu(r, at, "relu1"));
    CLT_TRY(add_pair(r, at, 2, &window, false));
    CLT_TRY(add_relu(r, at, "relu2"));
    return add_pair(r, at, 3, &wide, r->zero_init);
}

static clt_status add_block(clt_residual *r, const block *at, bool bottleneck)
{
    char name[64];
    int32_t shortcut;
    r->net.b.graph->block++;
    CLT_TRY(add_shortcut(r, at, at->planes * (bottleneck ? EXPANSION : 1), &shortcut));
    CLT_TRY(bottleneck ? add_bottleneck(r, at) : add_basic(r, at));
    CLT_TRY(clt_conv_net_join(&r->net, "add", block_name(name, at, "add"), shortcut, NULL));
    return add_relu(r, at, bottleneck ? "relu3" : "relu2");
}

static clt_status add_stem(clt_residual *r)
{
    static const int64_t window = 3, two = 2, one = 1;
    const clt_conv_layer large = {.out = r->width, .kernel = 7, .stride = 2},
                         small = {.out = r->width, .kernel = 3, .stride = 1};
    CLT_TRY(clt_conv_net_conv(&r->net, "conv1", r->large_stem ? &large : &small));
    CLT_TRY(clt_conv_net_norm(&r->net, "bn1", false));
    CLT_TRY(clt_conv_net_next(&r->net, "relu", "relu", NULL, NULL));
    if (!r->large_stem)
        return CLT_OK;
    return clt_conv_net_next(&r->net, "max_pool", "maxpool",
                             CLT_ATTRS(CLT_A_INTS("kernel", &window, 1), CLT_A_INTS("stride", &two, 1),
                                       CLT_A_INTS("padding", &one, 1)),
                             NULL);
}

static clt_status residual_read(clt_residual *r)
{
    bool bottleneck;
    const clt_model_builder *b = &r->net.b;
    r->groups = 1;
    CLT_TRY(clt_model_read_int(b, "depth", 0, &r->depth));
    CLT_TRY(clt_model_read_int(b, "width", 0, &r->width));
    CLT_TRY(clt_model_read_int(b, "groups", 1, &r->groups));
    CLT_TRY(clt_model_read_int(b, "width_per_group", 0, &r->width_per_group));
    CLT_TRY(clt_model_read_bool(b, "zero_init", &r->zero_init));
    if (r->width == 0)
        r->width = DEFAULT_WIDTH;
    if (!clt_residual_known(r->depth, &bottleneck))
        return clt_model_key_fail(b, "depth", "required: 18, 34, 50, 101 or 152, say");
    if (!bottleneck && (r->groups != 1 || r->width_per_group != 0))
        return clt_model_key_fail(b, r->groups != 1 ? "groups" : "width_per_group",
                                  "only for bottlenecks, which begin at model.depth 50");
    if (r->width_per_group == 0)
        r->width_per_group = r->width;
    return CLT_OK;
}

clt_status clt_residual_build(clt_residual *r)
{
    CLT_TRY(residual_read(r));
    CLT_TRY(clt_conv_net_open(&r->net));
    CLT_TRY(add_stem(r));
    const struct residual_depth *d = find_depth(r->depth);
    block at = {.planes = r->width};
    for (at.stage = 0; at.stage < STAGES; at.stage++, at.planes *= 2) {
        for (at.index = 0; at.index < d->blocks[at.stage]; at.index++) {
            at.stride = at.stage > 0 && at.index == 0 ? 2 : 1;
            CLT_TRY(add_block(r, &at, d->bottleneck));
        }
    }
    r->net.b.graph->block++;
    return clt_conv_net_classify(&r->net);
}

void clt_residual_rules(clt_config_rules *rules, const char *noun, const char *known)
{
    const clt_config *c = rules->config;
    bool bottleneck = false;
    clt_conv_net_rules(rules, noun);
    if (!clt_rules_usable(rules, "model.depth") || clt_rules_empty(rules, "model.depth"))
        return;
    char framed[32], list[64];
    snprintf(framed, sizeof framed, "|%lld|", (long long)clt_config_int(c, "model.depth"));
    snprintf(list, sizeof list, "|%s|", known);
    if (!strstr(list, framed)) {
        clt_rules_broken(rules, "model.depth", "must be one of %s for %s", known, noun);
        return;
    }
    clt_residual_known(clt_config_int(c, "model.depth"), &bottleneck);
    if (bottleneck)
        return;
    if (clt_rules_usable(rules, "model.groups") && clt_config_int(c, "model.groups") != 1)
        clt_rules_broken(rules, "model.groups", "only for bottlenecks, which begin at model.depth 50");
    if (clt_rules_usable(rules, "model.width_per_group") && !clt_rules_empty(rules, "model.width_per_group"))
        clt_rules_broken(rules, "model.width_per_group",
                         "only for bottlenecks, which begin at model.depth 50");
}
