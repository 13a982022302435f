/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files that write GGUF share: gguf.c writes the file and converts values; gguf_meta.c
 * writes the settings and the tokenizer. */
#ifndef ENGINE_PRETRAINED_GGUF_GGUF_INTERNAL_H
#define ENGINE_PRETRAINED_GGUF_GGUF_INTERNAL_H

#include "engine/pretrained/gguf/gguf.h"
#include "engine/pretrained/hf_export_internal.h"

#define CLT_GGUF_ALIGNMENT 32u

/* Numbers are little-endian. A text is its length in 64 bits and its bytes. */
void clt_gguf_number(clt_str *out, uint64_t value, int bytes);
void clt_gguf_text(clt_str *out, const char *text, size_t length);

/* gguf_meta.c: llama.cpp's architecture for the model: "gpt2", "llama", "qwen2" or "qwen3". CLT_EUNSUPPORTED:
 * there is none, with the reason. */
clt_status clt_gguf_architecture(const hf_export *x, const char **name);
/* Appends all pairs of key and value; *count: their number. */
clt_status clt_gguf_metadata(const hf_export *x, const char *architecture, clt_gguf_type type, clt_str *out,
                             uint64_t *count);
/* Llama 3's scaling: the divisor of each rotary frequency, (head_dim / 2); *factors NULL: no scaling. */
clt_status clt_gguf_rope_factors(const hf_export *x, float **factors);

#endif
