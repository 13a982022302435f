/* SPDX-License-Identifier: Apache-2.0
 *
 * Appending parts to a text of a sample: what chat_turns.c and chat_record.c share. */
#ifndef ENGINE_DATA_CHAT_CHAT_PARTS_H
#define ENGINE_DATA_CHAT_CHAT_PARTS_H

#include "engine/data/chat/chat_text.h"

/* Appends text. `flags`: marker, apart and trained; end and id do not matter. Empty text adds nothing. */
clt_status clt_chat_add_text(clt_chat_text *out, const char *text, clt_chat_part flags);
/* Appends a token. */
clt_status clt_chat_add_token(clt_chat_text *out, int64_t id, bool trained);
/* Appends the token with a role; CLT_EDATA if the tokenizer has none. */
clt_status clt_chat_add_role(const clt_chat_rules *rules, clt_token_role role, bool trained,
                             clt_chat_text *out);
void clt_chat_text_clear(clt_chat_text *out);

typedef struct clt_chat_turn {
    clt_chat_role role;
    const char *text; /* borrowed */
    bool trained;
} clt_chat_turn;
/* Appends a conversation by the template. question: it ends where the assistant's next answer begins.
 * CLT_EDATA: the template does not have such a conversation. */
clt_status clt_chat_add_turns(const clt_chat_rules *rules, const clt_chat_turn *turn, size_t count,
                              bool question, clt_chat_text *out);

#endif
