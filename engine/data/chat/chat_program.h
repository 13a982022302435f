/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the pieces of a template's Jinja program that concern tools (chat_program_tools.c). */
#ifndef ENGINE_DATA_CHAT_CHAT_PROGRAM_H
#define ENGINE_DATA_CHAT_CHAT_PROGRAM_H

#include "engine/data/chat/chat_template.h"

/* Appends a text as a Jinja string. */
void clt_program_string(clt_str *out, const char *text);

/* Appends the part of the program that comes before the turns and sets told.text to the description of the
 * tools. */
void clt_program_tell(clt_str *out, clt_chat_tools kind);
/* Jinja expressions for a turn of the system or the user; NULL: nothing. _before: the text before the turn's
 * own text. _told: the description of tools, if this turn contains it. Qwen's description follows the turn's
 * text, the others precede it. */
const char *clt_program_before(clt_chat_tools kind, clt_chat_role role);
const char *clt_program_told(clt_chat_tools kind, clt_chat_role role);
/* Jinja expression for the calls of an answer. `raw`: arguments that are a text are written as they are. */
const char *clt_program_calls(clt_chat_tools kind, bool raw);
/* Jinja expression for a turn of the role `tool`. */
const char *clt_program_answers(clt_chat_tools kind);

#endif
