/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain estimate CONFIG --for CARDS: whether the training fits on cards that this machine does not have,
 * how long it would take there and what it would cost. */
#ifndef CLI_COMMANDS_ESTIMATE_CARDS_H
#define CLI_COMMANDS_ESTIMATE_CARDS_H

#include "engine/config/config.h"

/* cards: names of the table, separated by commas. prices: "NAME=PRICE,..." of one card for an hour, or NULL.
 * reach: the share of the cards' limits that a step reaches, in percent. Writes to standard output.
 * CLT_EUSAGE: an unknown card, or an invalid price. */
typedef struct estimate_cards_options {
    const char *cards, *prices;
    double reach;
    uint32_t caps;
    int ranks;
    bool json;
} estimate_cards_options;
clt_status estimate_cards(const clt_config *config, const estimate_cards_options *options);

#endif
