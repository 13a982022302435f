/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual networks for images and volumes: a stem, four stages of blocks whose input is added to their
 * output, and a classifier. The layers have torchvision's names, "layer1.0.conv1" to "fc". Sources: He et al.
 * 2016, Deep Residual Learning (arXiv:1512.03385); torchvision's resnet.py (the stride of a bottleneck is in
 * its 3x3 convolution, known as v1.5); Xie et al. 2017, ResNeXt (arXiv:1611.05431) for groups. */
#ifndef ENGINE_MODELS_RESIDUAL_H
#define ENGINE_MODELS_RESIDUAL_H

#include "engine/models/conv_net.h"

typedef struct clt_residual {
    clt_conv_net net;
    int64_t depth;           /* 10, 18, 34: basic blocks; 50, 101, 152: bottlenecks */
    int64_t width;           /* channels of the stem and of the first stage */
    int64_t groups;          /* groups of the 3-wide convolutions of bottlenecks */
    int64_t width_per_group; /* channels of a group in the first stage; 0: `width` */
    bool zero_init;          /* the last norm of each block starts at zero */
    bool large_stem;         /* 7 wide, stride 2, then a pool of stride 2; else 3 wide at full size */
} clt_residual;

/* Reads the keys that both families have and builds the graph. CLT_ECONFIG names the key that is wrong. */
clt_status clt_residual_build(clt_residual *r);
/* True if networks of this depth are known; *bottleneck: their blocks are bottlenecks. */
bool clt_residual_known(int64_t depth, bool *bottleneck);

#define CLT_RESIDUAL_KEYS                                                                                    \
    CLT_CONV_NET_CLASSES, CLT_MODEL_CLASS_WEIGHTS(CLT_MODEL_ENTROPY_WEIGHTS),                                \
        CLT_KEY_INT("model.width", 0, 65536, "0", "channels",                                                \
                    "channels of the first stage; each later stage has twice as many channels; 0: 64"),      \
        CLT_KEY_INT("model.groups", 1, 65536, "1", "", "groups of channels in bottlenecks (ResNeXt: 32)"),   \
        CLT_KEY_INT("model.width_per_group", 0, 65536, "0", "channels",                                      \
                    "channels of a group in the first stage (ResNeXt-50 32x4d: 4; a wide ResNet: 128); 0: "  \
                    "model.width"),                                                                          \
        CLT_KEY_BOOL("model.zero_init", "false",                                                             \
                     "the factors of the last norm of each block start at 0, so that a block starts as the " \
                     "identity"),                                                                            \
        CLT_CONV_NET_SMOOTHING
/* Adds the config's rules for the keys above. */
void clt_residual_rules(clt_config_rules *rules, const char *noun, const char *depths);

#endif
