/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that write GGUF: gguf.c writes the file and converts values, gguf_meta.c its settings
 * and its tokenizer. */
#ifndef ENGINE_PRETRAINED_GGUF_GGUF_INTERNAL_H
#define ENGINE_PRETRAINED_GGUF_GGUF_INTERNAL_H

#include "engine/pretrained/gguf/gguf.h"
#include "engine/pretrained/hf_export_internal.h"

#define CLT_GGUF_ALIGNMENT 32u

/* Numbers are little-endian. A text is its length in 64 bits and its bytes. */
void clt_gguf_number(clt_str *out, uint64_t value, int bytes);
void clt_gguf_text(clt_str *out, const char *text, size_t length);

/* gguf_meta.c: the architecture of llama.cpp that computes the model: "gpt2", "llama", "qwen2", "qwen3".
 * CLT_EUNSUPPORTED with the reason: there is none. */
clt_status clt_gguf_architecture(const hf_export *x, const char **name);
/* Appends all pairs of key and value, and says how many. */
clt_status clt_gguf_metadata(const hf_export *x, const char *architecture, clt_gguf_type type, clt_str *out,
                             uint64_t *count);
/* llama3's scaling: the divisor of each rotary frequency, (head_dim / 2); *factors NULL: there is none. */
clt_status clt_gguf_rope_factors(const hf_export *x, float **factors);

#endif
