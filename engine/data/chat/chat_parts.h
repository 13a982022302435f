/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends parts to the text of a sample: functions that chat_turns.c and chat_record.c share. */
#ifndef ENGINE_DATA_CHAT_CHAT_PARTS_H
#define ENGINE_DATA_CHAT_CHAT_PARTS_H

#include "engine/data/chat/chat_text.h"
#include "engine/json/json.h"

/* Appends text. Uses the members marker, apart and trained of `flags` and ignores end and id. An empty text
 * adds nothing. */
clt_status clt_chat_add_text(clt_chat_text *out, const char *text, clt_chat_part flags);
/* Appends a token. */
clt_status clt_chat_add_token(clt_chat_text *out, int64_t id, bool trained);
/* Appends the tokenizer's token for a role; CLT_EDATA if it has none. */
clt_status clt_chat_add_role(const clt_chat_rules *rules, clt_token_role role, bool trained,
                             clt_chat_text *out);
void clt_chat_text_clear(clt_chat_text *out);

typedef struct clt_chat_turn {
    clt_chat_role role;
    const char *text; /* borrowed, like all pointers below */
    bool trained;
    const clt_json *calls; /* assistant: a list of tool calls; NULL: none */
    const char *call_id;   /* tool: the id of the call that it answers; NULL: unknown */
    const char *reasoning; /* assistant: its thoughts before the text; NULL: they may be in the text */
} clt_chat_turn;
/* Appends a conversation as the template writes it. `tools`: a list of the tools that the model may call;
 * NULL: none. `question`: the text ends where the assistant's next answer begins. CLT_EDATA: the template
 * cannot express this conversation. */
clt_status clt_chat_add_turns(const clt_chat_rules *rules, const clt_chat_turn *turn, size_t count,
                              const clt_json *tools, bool question, clt_chat_text *out);

/* --- chat_tools.c: `turn` has all turns except the system's, and `i` is an index in it --- */

/* Fails with CLT_EDATA if the conversation has tools and the template has no form for them, or if the tools
 * are malformed. */
clt_status clt_chat_check_tools(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                                const clt_json *tools);
/* Appends Qwen's description of the tools, which ends the system turn. `after_text`: the system turn has a
 * text. */
clt_status clt_chat_add_tools_qwen(const clt_json *tools, bool after_text, clt_chat_text *out);
/* Appends the beginning of a user turn of a conversation with tools, up to its text. */
clt_status clt_chat_add_tools_user(const clt_chat_template *chat, const clt_json *tools,
                                   const clt_chat_turn *turn, size_t count, size_t i, clt_chat_text *out);
/* Appends the calls of an assistant's turn. `after_text`: the turn has a text before the calls. CLT_EDATA: a
 * call is malformed. */
clt_status clt_chat_add_calls(const clt_chat_template *chat, const clt_chat_turn *turn, bool after_text,
                              clt_chat_text *out);
/* Appends the turn of a tool. */
clt_status clt_chat_add_answer(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                               size_t i, clt_chat_text *out);

/* The texts that Qwen puts around the descriptions of tools, and the text that Llama puts before them. */
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
