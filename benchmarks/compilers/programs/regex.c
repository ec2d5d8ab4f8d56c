/* Text: regular expressions, compiled to a program that a set of threads runs (Thompson, Pike). */
#include "suite.h"

enum { LITERAL, ANY, CLASS, SPLIT, JUMP, MATCH, BEGIN_LINE, END_LINE };

typedef struct {
    unsigned char kind, negated;
    short x, y; /* the character, or the targets */
    uint32_t set[8];
} Step;

typedef struct {
    Step steps[256];
    int count;
    const char *text;
} Program;

typedef struct {
    int at[256], count;
    unsigned char has[256];
} Threads;

static void parse_alternatives(Program *program);

static int emit(Program *program, int kind, int x, int y) {
    Step *step = &program->steps[program->count];
    memset(step, 0, sizeof *step);
    step->kind = (unsigned char)kind;
    step->x = (short)x;
    step->y = (short)y;
    return program->count++;
}

/* Makes room for one step before `start` and moves the targets. */
static void insert_step(Program *program, int start) {
    memmove(&program->steps[start + 1], &program->steps[start], sizeof(Step) * (size_t)(program->count - start));
    program->count++;
    for (int i = start + 1; i < program->count; i++) {
        Step *step = &program->steps[i];
        if (step->kind == SPLIT || step->kind == JUMP) {
            if (step->x >= start)
                step->x++;
            if (step->y >= start)
                step->y++;
        }
    }
}

static void add_to_set(Step *step, unsigned char c) { step->set[c >> 5] |= 1u << (c & 31); }

static void parse_class(Program *program) {
    Step *step = &program->steps[emit(program, CLASS, 0, 0)];
    if (*program->text == '^') {
        step->negated = 1;
        program->text++;
    }
    while (*program->text && *program->text != ']') {
        unsigned char first = (unsigned char)*program->text++, last = first;
        if (program->text[0] == '-' && program->text[1] != ']') {
            last = (unsigned char)program->text[1];
            program->text += 2;
        }
        for (int c = first; c <= last; c++)
            add_to_set(step, (unsigned char)c);
    }
    if (*program->text)
        program->text++;
}

static void parse_atom(Program *program) {
    char c = *program->text++;
    if (c == '(') {
        parse_alternatives(program);
        if (*program->text == ')')
            program->text++;
    } else if (c == '[') {
        parse_class(program);
    } else if (c == '.') {
        emit(program, ANY, 0, 0);
    } else if (c == '^') {
        emit(program, BEGIN_LINE, 0, 0);
    } else if (c == '$') {
        emit(program, END_LINE, 0, 0);
    } else {
        emit(program, LITERAL, c == '\\' ? *program->text++ : c, 0);
    }
}

static void parse_repeated(Program *program) {
    int start = program->count;
    parse_atom(program);
    for (;; program->text++) {
        if (*program->text == '*') {
            insert_step(program, start);
            int end = emit(program, JUMP, start, 0);
            program->steps[start] = (Step){.kind = SPLIT, .x = (short)(start + 1), .y = (short)(end + 1)};
        } else if (*program->text == '+') {
            emit(program, SPLIT, start, program->count + 1);
        } else if (*program->text == '?') {
            insert_step(program, start);
            program->steps[start] = (Step){.kind = SPLIT, .x = (short)(start + 1), .y = (short)program->count};
        } else {
            return;
        }
    }
}

static void parse_alternatives(Program *program) {
    int start = program->count;
    while (*program->text && *program->text != ')' && *program->text != '|')
        parse_repeated(program);
    if (*program->text == '|') {
        program->text++;
        insert_step(program, start);
        int jump = emit(program, JUMP, 0, 0);
        program->steps[start] = (Step){.kind = SPLIT, .x = (short)(start + 1), .y = (short)program->count};
        parse_alternatives(program);
        program->steps[jump].x = (short)program->count;
    }
}

void compile(Program *program, const char *pattern) {
    program->count = 0;
    program->text = pattern;
    parse_alternatives(program);
    emit(program, MATCH, 0, 0);
}

static void add_thread(const Program *program, Threads *threads, int at, int is_begin, int is_end) {
    if (threads->has[at])
        return;
    threads->has[at] = 1;
    const Step *step = &program->steps[at];
    switch (step->kind) {
    case JUMP:
        add_thread(program, threads, step->x, is_begin, is_end);
        break;
    case SPLIT:
        add_thread(program, threads, step->x, is_begin, is_end);
        add_thread(program, threads, step->y, is_begin, is_end);
        break;
    case BEGIN_LINE:
        if (is_begin)
            add_thread(program, threads, at + 1, is_begin, is_end);
        break;
    case END_LINE:
        if (is_end)
            add_thread(program, threads, at + 1, is_begin, is_end);
        break;
    default:
        threads->at[threads->count++] = at;
    }
}

static int accepts(const Step *step, unsigned char c) {
    switch (step->kind) {
    case LITERAL:
        return c == (unsigned char)step->x;
    case ANY:
        return 1;
    case CLASS:
        return (int)(step->set[c >> 5] >> (c & 31) & 1) != step->negated;
    default:
        return 0;
    }
}

/* Returns the end of the first match that ends first, or -1. */
int search(const Program *program, const char *text, int length) {
    Threads sets[2], *now = &sets[0], *next = &sets[1];
    now->count = 0;
    memset(now->has, 0, sizeof now->has);
    for (int i = 0; i <= length; i++) {
        add_thread(program, now, 0, i == 0, i == length);
        next->count = 0;
        memset(next->has, 0, (size_t)program->count);
        for (int t = 0; t < now->count; t++) {
            const Step *step = &program->steps[now->at[t]];
            if (step->kind == MATCH)
                return i;
            if (i < length && accepts(step, (unsigned char)text[i]))
                add_thread(program, next, now->at[t] + 1, 0, i + 1 == length);
        }
        Threads *kept = now;
        now = next;
        next = kept;
    }
    return -1;
}

void run(int size) {
    static const char *patterns[] = {"a(b|c)*d",          "[0-9]+\\.[0-9]+",    "^(foo|bar)+x?", "(a|b)*abb",
                                     "x[^a-m ]y?z+",      "(ab|a)(bc|c)?d+$",   "q.*z.*q",       "([a-c]+[0-9])+[x-z]",
                                     "(a?b?c?d?)+[0-9]0", "^[^ ]+ [^ ]+ [a-z]"};
    static const char alphabet[] = "aabbccddxyzq01 foobar.";
    char *text = malloc((size_t)size + 1);
    Program *program = malloc(sizeof(Program));
    for (unsigned p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        compile(program, patterns[p]);
        mix((uint64_t)program->count);
        for (int round = 0; round < 4; round++) {
            int length = size / 4 * (round + 1);
            for (int i = 0; i < length; i++)
                text[i] = alphabet[next_random() % (sizeof alphabet - 1)];
            for (int start = 0, end; start < length; start += end + 1) {
                end = search(program, text + start, length - start);
                mix((uint64_t)(end + 1));
                if (end < 0)
                    break;
            }
        }
    }
    free(program);
    free(text);
}
