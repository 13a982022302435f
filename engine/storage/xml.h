/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the short XML texts that object storage answers with. An element is found by its name, inside
 * another one or in the whole text; in these texts no element contains another one with the same name. */
#ifndef ENGINE_STORAGE_XML_H
#define ENGINE_STORAGE_XML_H

#include "engine/base/mem.h"

/* The content of an element, or a whole text. */
typedef struct clt_xml {
    const char *text;
    size_t size;
} clt_xml;

/* Finds the first element `name` inside `in`. *rest (may be NULL): the text after it. False: there is
 * none. */
bool clt_xml_find(clt_xml in, const char *name, clt_xml *out, clt_xml *rest);
/* Appends the text of an element; entities such as &lt; &#34; &#x22; become the characters that they stand
 * for. */
void clt_xml_text(clt_xml element, clt_str *out);
/* Copies the text of the first element `name`, cut to the buffer's size; "" if there is none. True: the
 * element exists and its text fits. */
bool clt_xml_copy(clt_xml in, const char *name, char *buffer, size_t size);

#endif
