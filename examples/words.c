/* Counts words by a hash table and sorts them, for examples/passes.toml. It prints the same each time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024, WORDS = 4000 };

struct entry {
    char word[8];
    int count;
};

static struct entry table[SLOTS];

static unsigned hash(const char *word)
{
    unsigned value = 2166136261u;
    for (; *word; word++)
        value = (value ^ (unsigned char)*word) * 16777619u;
    return value;
}

static void count(const char *word)
{
    for (unsigned slot = hash(word) % SLOTS;; slot = (slot + 1) % SLOTS) {
        struct entry *entry = &table[slot];
        if (entry->count == 0)
            strcpy(entry->word, word);
        if (strcmp(entry->word, word) == 0) {
            entry->count++;
            return;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->count != y->count ? y->count - x->count : strcmp(x->word, y->word);
}

int main(void)
{
    unsigned state = 1;
    for (int n = 0; n < WORDS; n++) {
        char word[8] = "";
        for (int i = 0; i < 2; i++) {
            state = state * 1664525u + 1013904223u;
            word[i] = (char)('a' + (state >> 24) % 20);
        }
        count(word);
    }
    qsort(table, SLOTS, sizeof table[0], compare);
    for (int i = 0; i < 5; i++)
        printf("%s %d\n", table[i].word, table[i].count);
    return 0;
}
