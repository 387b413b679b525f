/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Escapes of /proc/mounts, and the way back for terminals.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"

static int is_octal_escape(const char *text)
{
	return text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
	       text[2] <= '7' && text[3] >= '0' && text[3] <= '7';
}

void unescape(char *text)
{
	char *to = text;

	while (*text != '\0') {
		if (is_octal_escape(text) && strncmp(text, "\\000", 4) != 0) {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
				       (text[3] - '0'));
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

int utf8_sequence(const char *text)
{
	static const unsigned int smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *bytes = (const unsigned char *)text;
	unsigned int point;
	int i, length;

	if (bytes[0] < 0x80)
		return bytes[0] != 0;
	if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
		length = 2;
	else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
		length = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
		length = 4;
	else
		return 0;
	point = bytes[0] & (0x7fu >> length);
	for (i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (bytes[i] & 0x3fu);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	return length;
}

char *escape_for_terminal(const char *text)
{
	char *result = malloc(4 * strlen(text) + 1), *to = result;

	if (!result)
		return NULL;
	while (*text != '\0') {
		unsigned char c = (unsigned char)*text;
		int length = utf8_sequence(text);
		/* U+0080 to U+009F control terminals too */
		int is_control = c < 0x20 || c == 0x7f ||
				 (length == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);

		if (length == 0 || is_control || c == '\\') {
			to += sprintf(to, "\\%03o", c);
			text++;
			if (length == 2) /* its continuation byte alone is no UTF-8 */
				to += sprintf(to, "\\%03o", (unsigned char)*text++);
			continue;
		}
		memcpy(to, text, (size_t)length);
		to += length;
		text += length;
	}
	*to = '\0';
	return result;
}
