/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads models of other programs from folders written by `save_pretrained` of Hugging Face's transformers:
 * translates their config.json into keys of our config, and finds their tokenizer. The weights themselves are
 * opened by clt_weights_open and compared with the model by clt_weights_check. Knows GPT-2, Llama and its
 * relatives, and BERT; needs no device. */
#ifndef ENGINE_PRETRAINED_PRETRAINED_H
#define ENGINE_PRETRAINED_PRETRAINED_H

#include "engine/config/config.h"

struct clt_tokenizer;
typedef struct clt_pretrained clt_pretrained;

/* Reads the config.json of the folder, or the config of one of our runs; a file of weights has neither and
 * gives no presets. CLT_EUNSUPPORTED lists everything in the config that our model family cannot do, each
 * with the reason; CLT_ECHECKPOINT: the path, its config.json or its weights are missing or cannot be
 * read. */
clt_status clt_pretrained_open(const char *path, clt_pretrained **out);
/* True if the model continues texts; models of the families gpt and llama do. */
bool clt_pretrained_generates(const clt_pretrained *p);
/* True for a folder of a model that another program saved: it has a config.json, and is no run of ours. */
bool clt_pretrained_is_folder(const char *path);
void clt_pretrained_close(clt_pretrained *p); /* NULL is fine */
CLT_SCOPED_POINTER(clt_pretrained, clt_pretrained_close)
/* The values that keys of the model section must have, and the tokenizer for text. training: also keys that
 * only training uses. */
const clt_config_presets *clt_pretrained_presets(clt_pretrained *p, bool training);
/* Drops the names of the classes: the classifier is not taken from the weights and may have other classes. */
void clt_pretrained_drop_names(clt_pretrained *p);
/* Adds the values that an adapter for these weights brings (peft.h). `adapter` must live as long as `p`.
 * CLT_EUSAGE: the weights come from a run that has its own adapters. */
clt_status clt_pretrained_add_adapter(clt_pretrained *p, const clt_config_presets *adapter);
/* Writes a config, as JSON for the user to edit, that trains these weights further on a text: model.init
 * names their folder. */
clt_status clt_pretrained_config(const clt_pretrained *p, clt_str *out);

/* Compares the config's tokenizer with the one of the weights at `path`, if that is a folder. CLT_EDATA: the
 * number of tokens differs. A warning is logged if the number is the same but the tokens differ. */
clt_status clt_pretrained_check_tokenizer(const char *path, const clt_config *config);
/* Compares the tokenizer in the folder of the weights with the model. `vocab`: model.vocab. CLT_EDATA: it has
 * more tokens than the model has rows, and texts can contain these tokens. Appends to `notes`, each as "; "
 * and a sentence, the special ids of config.json that contradict the model or the tokenizer. */
clt_status clt_pretrained_check_own_tokenizer(const clt_pretrained *p, const struct clt_tokenizer *own,
                                              int64_t vocab, clt_str *notes);

#endif
