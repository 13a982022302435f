/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-rank adapters: a frozen linear layer y = W x + b becomes y + s * B A dropout(x), where only A, (r,
 * in), and B, (out, r), are trained; s = alpha / r, or alpha / sqrt(r). B starts at zero, so the model at
 * first computes the same as without adapters. For an embedding, W is a table, A[:, token] replaces A x, and
 * A starts at zero. A family adds its linear layers with clt_lora_linear, its embedding of tokens with
 * clt_lora_table, and its config keys with CLT_LORA_KEYS. Sources: Hu et al. 2021, arXiv:2106.09685;
 * Kalajdzievski 2023, arXiv:2312.03732 (the root). */
#ifndef ENGINE_MODELS_LORA_H
#define ENGINE_MODELS_LORA_H

#include "engine/models/models_internal.h"
#include "engine/ops/node.h"

#define CLT_LORA_MAX_TARGETS 4096 /* most entries of model.lora_targets, and of each pattern key */

/* Reads the keys model.lora_... into b->lora. Without model.lora_rank there are no adapters. decode: the
 * form for generation, which has no dropout. CLT_ECONFIG with the key's name if a value is wrong. */
clt_status clt_lora_read(clt_model_builder *b, bool decode);
/* Adds the op linear with these attributes as layer `name`, which reads tensor `from`, and its adapter
 * <name>.lora_A, <name>.lora_B if model.lora_targets names the layer. *node: the layer itself; *out: the
 * tensor with the result. */
clt_status clt_lora_linear(clt_model_builder *b, const char *name, int32_t from, const clt_attr_given *attrs,
                           clt_node **node, int32_t *out);
/* *out: the rows of the embedding `table` at the indices `index`. Adds the adapter's result to them
 * (<table>.lora_embedding_A and _B) if model.lora_targets names the layer itself, which "all-linear" does
 * not. */
clt_status clt_lora_table(clt_model_builder *b, const clt_node *table, int32_t index, int64_t vocab,
                          int32_t *out);
/* Adds the adapter's result to *out in the same way for the output layer `head`, which reads tensor `from`
 * and has `vocab` rows without padding. */
clt_status clt_lora_head(clt_model_builder *b, const clt_node *head, int32_t from, int64_t vocab,
                         int32_t *out);
/* After the last layer: freezes every parameter outside adapters and parts that are trained whole.
 * CLT_ECONFIG if an entry of a key names nothing. Does nothing without adapters. */
clt_status clt_lora_finish(clt_model_builder *b);

/* Adds the rules for the keys below. */
void clt_lora_check(clt_config_rules *rules);

#define CLT_LORA_BASES "f32|f16|bf16"
#define CLT_LORA_KEYS                                                                                        \
    CLT_KEY_INT(                                                                                             \
        "model.lora_rank", 0, 65536, "0", "",                                                                \
        "rank of the low-rank adapters (LoRA) that are trained instead of the weights; 0: none, the "        \
        "weights are trained"),                                                                              \
        CLT_KEY_FLOAT_OPEN("model.lora_alpha", 0, true, 1e6, false, "16", "",                                \
                           "adapters are multiplied by this number divided by model.lora_rank"),             \
        CLT_KEY_BOOL("model.lora_rs", "false",                                                               \
                     "adapters are multiplied by model.lora_alpha divided by the square root of "            \
                     "model.lora_rank (rsLoRA)"),                                                            \
        CLT_KEY_FLOAT_OPEN("model.lora_dropout", 0, false, 1, true, "0", "",                                 \
                           "share of an adapter's inputs dropped in training"),                              \
        CLT_KEY_STRINGS(                                                                                     \
            "model.lora_targets", "[]",                                                                      \
            "the layers that get an adapter: ends of their names (\"q_proj\"), whole "                       \
            "names or patterns (\"layers.1?.mlp.*\"); \"all-linear\": all linear ones but the output "       \
            "layer; "                                                                                        \
            "the embedding of tokens and, if it is not tied to it, the output layer only by name; "          \
            "[]: the layers that PEFT chooses for the family"),                                              \
        CLT_KEY_STRINGS("model.lora_rank_pattern", "[]",                                                     \
                        "other ranks for some layers, the first entry that names a layer counts: "           \
                        "\"v_proj=4\", with names as in model.lora_targets (PEFT's rank_pattern)"),          \
        CLT_KEY_STRINGS("model.lora_alpha_pattern", "[]",                                                    \
                        "other values of model.lora_alpha for some layers: \"v_proj=8\" (PEFT's "            \
                        "alpha_pattern)"),                                                                   \
        CLT_KEY_STRINGS("model.lora_modules_to_save", "[]",                                                  \
                        "parts of the model that are trained whole beside the adapters, with names as in "   \
                        "model.lora_targets (PEFT's modules_to_save); a classifier of a bert always is"),    \
        CLT_KEY_CHOICE("model.lora_base", CLT_LORA_BASES, "\"f32\"",                                         \
                       "type in which the frozen weights of linear layers and embeddings are kept; f16 and " \
                       "bf16 round them when they are read, and need half the memory")

#endif
