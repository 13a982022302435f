/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the short XML texts that object storage answers with. An element is found by its name, inside
 * another one or in the whole text; elements of one name never hold each other in these texts. */
#ifndef ENGINE_STORAGE_XML_H
#define ENGINE_STORAGE_XML_H

#include "engine/base/mem.h"

/* The inside of an element, or a whole text. */
typedef struct clt_xml {
    const char *text;
    size_t size;
} clt_xml;

/* Finds the first element of the name inside `in`; *rest (may be NULL) gets what follows it. False: there is
 * none. */
bool clt_xml_find(clt_xml in, const char *name, clt_xml *out, clt_xml *rest);
/* Appends the text of an element; &lt; &#34; &#x22; and the like become what they stand for. */
void clt_xml_text(clt_xml element, clt_str *out);
/* The text of the first element of the name, cut to the size of the buffer; "" if there is none. Returns
 * whether it is there and whole. */
bool clt_xml_copy(clt_xml in, const char *name, char *buffer, size_t size);

#endif
