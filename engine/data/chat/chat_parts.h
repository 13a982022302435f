/* SPDX-License-Identifier: Apache-2.0
 *
 * Appending parts to a text of a sample: what chat_turns.c and chat_record.c share. */
#ifndef ENGINE_DATA_CHAT_CHAT_PARTS_H
#define ENGINE_DATA_CHAT_CHAT_PARTS_H

#include "engine/data/chat/chat_text.h"
#include "engine/json/json.h"

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
    const char *text; /* borrowed, as all of the following */
    bool trained;
    const clt_json *calls; /* of the assistant: a list of calls of tools; NULL: none */
    const char *call_id;   /* of a tool: which call it answers; NULL: that is not said */
    const char
        *reasoning; /* of the assistant: what it thought before the text; NULL: it may be in the text */
} clt_chat_turn;
/* Appends a conversation by the template. tools: a list of the tools that the model may call; NULL: none.
 * question: it ends where the assistant's next answer begins. CLT_EDATA: the template does not have such a
 * conversation. */
clt_status clt_chat_add_turns(const clt_chat_rules *rules, const clt_chat_turn *turn, size_t count,
                              const clt_json *tools, bool question, clt_chat_text *out);

/* --- chat_tools.c: turns without the system's are `turn`, of which `i` is the number of one --- */

/* CLT_EDATA: the template has no form for tools and the conversation needs one, or the tools are
 * malformed. */
clt_status clt_chat_check_tools(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                                const clt_json *tools);
/* Appends Qwen's description of the tools, which ends the system turn. after_text: that turn has a text. */
clt_status clt_chat_add_tools_qwen(const clt_json *tools, bool after_text, clt_chat_text *out);
/* Appends the beginning of a user turn of a conversation with tools, up to its text. */
clt_status clt_chat_add_tools_user(const clt_chat_template *chat, const clt_json *tools,
                                   const clt_chat_turn *turn, size_t count, size_t i, clt_chat_text *out);
/* Appends the calls of an assistant's turn. after_text: the turn has a text before them. CLT_EDATA: a call is
 * malformed. */
clt_status clt_chat_add_calls(const clt_chat_template *chat, const clt_chat_turn *turn, bool after_text,
                              clt_chat_text *out);
/* Appends the turn of a tool. */
clt_status clt_chat_add_answer(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                               size_t i, clt_chat_text *out);

/* What models are told of tools: the texts of Qwen around their descriptions, and Llama's before them. */
#define CLT_TOOLS_QWEN_BEGIN                                                                                 \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"                       \
    "You are provided with function signatures within <tools></tools> XML tags:\n"                           \
    "<tools>"
#define CLT_TOOLS_QWEN_END                                                                                   \
    "\n</tools>\n\nFor each function call, return a json object with function name and "                     \
    "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "                           \
    "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
#define CLT_TOOLS_LLAMA_BEGIN                                                                                \
    "Given the following functions, please respond with a JSON for a function call "                         \
    "with its proper arguments that best answers the given prompt.\n\n"                                      \
    "Respond in the format {\"name\": function name, \"parameters\": dictionary of "                         \
    "argument name and its value}.Do not use variables.\n\n"

#endif
