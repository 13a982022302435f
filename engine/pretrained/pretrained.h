/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of other programs, as folders that `save_pretrained` of Hugging Face's transformers wrote: what
 * their config.json says in the words of our config, and which tokenizer belongs to them. The weights
 * themselves are opened by clt_weights_open and compared with the model by clt_weights_check. It knows
 * GPT-2's family; it needs no device. */
#ifndef ENGINE_PRETRAINED_PRETRAINED_H
#define ENGINE_PRETRAINED_PRETRAINED_H

#include "engine/config/config.h"

typedef struct clt_pretrained clt_pretrained;

/* Reads the config.json of the folder, or the config of a run of our own; a file of weights has none, and no
 * presets. CLT_EUNSUPPORTED lists
 * everything in it that our gpt cannot be, each with the reason; CLT_ECHECKPOINT: the path, its config.json
 * or its weights are missing or cannot be read. */
clt_status clt_pretrained_open(const char *path, clt_pretrained **out);
void clt_pretrained_close(clt_pretrained *p); /* NULL is fine */
/* What the model section must be, and the tokenizer for text. training: also what only training asks for. */
const clt_config_presets *clt_pretrained_presets(clt_pretrained *p, bool training);
/* A config that trains these weights further on a text: JSON, to be edited and kept. */
clt_status clt_pretrained_config(const clt_pretrained *p, clt_str *out);

/* Whether the config's tokenizer can be that of the weights of `path` (only a folder can tell). CLT_EDATA: it
 * has another number of tokens. A warning: as many, but not the same. */
clt_status clt_pretrained_check_tokenizer(const char *path, const clt_config *config);

#endif
