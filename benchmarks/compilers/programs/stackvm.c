/* Interpreters: a compiler of a small language to byte code, and the stack machine that runs it. */
#include "suite.h"

enum { PUSH, LOAD, STORE, ADD, SUB, MUL, DIV, MOD, LESS, EQUAL, NOT, AND, OR, JUMP, JUMP_IF_NOT, CALL, RETURN, PRINT, DROP,
       DUP, SWAP, INDEX, PUT, HALT };

typedef struct {
    int code[1024], count;
    int patches[64], depth;
} Code;

typedef struct {
    long stack[256], memory[512];
    int calls[64], top, frames, steps;
} Machine;

static int emit(Code *code, int op, int argument) {
    code->code[code->count++] = op;
    code->code[code->count++] = argument;
    return code->count - 1;
}

static int is_space(char c) { return c == ' ' || c == '\n'; }

static int next_word(const char **text, char word[16]) {
    int length = 0;
    while (is_space(**text))
        (*text)++;
    while (**text && !is_space(**text) && length < 15)
        word[length++] = *(*text)++;
    word[length] = 0;
    return length;
}

static int operator_of(const char *word) {
    static const struct {
        const char *word;
        int op;
    } operators[] = {{"+", ADD},   {"-", SUB},    {"*", MUL},   {"/", DIV},     {"%", MOD},    {"<", LESS}, {"=", EQUAL}, {"not", NOT},
                     {"and", AND}, {"or", OR},    {"print", PRINT}, {"drop", DROP}, {"dup", DUP}, {"swap", SWAP},
                     {"at", INDEX}, {"put", PUT}, {"return", RETURN}, {"halt", HALT}};
    for (unsigned i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strcmp(word, operators[i].word) == 0)
            return operators[i].op;
    return -1;
}

/* Words: numbers, $a loads, !a stores, operators, while .. do .. end, if .. then .. else .. end, :f .. return, f(). */
void compile(Code *code, const char *text) {
    int functions[26] = {0}, loops[32], kinds[32], depth = 0;
    char word[16];
    while (next_word(&text, word)) {
        int op = operator_of(word);
        if (op >= 0) {
            emit(code, op, 0);
        } else if (word[0] == '$') {
            emit(code, LOAD, word[1] - 'a');
        } else if (word[0] == '!') {
            emit(code, STORE, word[1] - 'a');
        } else if (word[0] == ':') {
            code->patches[depth] = emit(code, JUMP, 0);
            functions[word[1] - 'a'] = code->count;
            kinds[depth++] = 2;
        } else if (strcmp(word, "while") == 0) {
            loops[depth] = code->count;
            kinds[depth++] = 1;
        } else if (strcmp(word, "do") == 0 || strcmp(word, "then") == 0) {
            if (word[0] == 't')
                kinds[depth++] = 0;
            code->patches[depth - 1] = emit(code, JUMP_IF_NOT, 0);
        } else if (strcmp(word, "else") == 0) {
            int jump = emit(code, JUMP, 0);
            code->code[code->patches[depth - 1]] = code->count;
            code->patches[depth - 1] = jump;
        } else if (strcmp(word, "end") == 0) {
            depth--;
            if (kinds[depth] == 1)
                emit(code, JUMP, loops[depth]);
            code->code[code->patches[depth]] = code->count;
        } else if (word[1] == '(') {
            emit(code, CALL, functions[word[0] - 'a']);
        } else {
            emit(code, PUSH, atoi(word));
        }
    }
    emit(code, HALT, 0);
}

int execute(Machine *m, const Code *code, int limit) {
    int at = 0;
    long *top = m->stack + m->top;
    for (m->steps = 0; m->steps < limit; m->steps++) {
        int op = code->code[at], argument = code->code[at + 1];
        at += 2;
        switch (op) {
        case PUSH: *top++ = argument; break;
        case LOAD: *top++ = m->memory[argument]; break;
        case STORE: m->memory[argument] = *--top; break;
        case ADD: top--; top[-1] = (long)((unsigned long)top[-1] + (unsigned long)top[0]); break;
        case SUB: top--; top[-1] = (long)((unsigned long)top[-1] - (unsigned long)top[0]); break;
        case MUL: top--; top[-1] = (long)((unsigned long)top[-1] * (unsigned long)top[0]); break;
        case DIV: top--; top[-1] = top[0] > 0 ? top[-1] / top[0] : 0; break;
        case MOD: top--; top[-1] = top[0] > 0 ? top[-1] % top[0] : 0; break;
        case LESS: top--; top[-1] = top[-1] < top[0]; break;
        case EQUAL: top--; top[-1] = top[-1] == top[0]; break;
        case NOT: top[-1] = !top[-1]; break;
        case AND: top--; top[-1] = top[-1] && top[0]; break;
        case OR: top--; top[-1] = top[-1] || top[0]; break;
        case JUMP: at = argument; break;
        case JUMP_IF_NOT: if (!*--top) at = argument; break;
        case CALL:
            if (m->frames >= 64)
                return -1;
            m->calls[m->frames++] = at;
            at = argument;
            break;
        case RETURN: at = m->calls[--m->frames]; break;
        case PRINT: mix((uint64_t)*--top); break;
        case DROP: top--; break;
        case DUP: *top = top[-1]; top++; break;
        case SWAP: { long kept = top[-1]; top[-1] = top[-2]; top[-2] = kept; break; }
        case INDEX: top[-1] = m->memory[32 + (top[-1] & 255)]; break;
        case PUT: top -= 2; m->memory[32 + (top[1] & 255)] = top[0]; break;
        default: m->top = (int)(top - m->stack); return m->steps;
        }
    }
    return -2;
}

static const char *sources[] = {
    /* primes by a sieve */
    "2 !i while $i 200 < do $i at not then $i print $i $i + !j while $j 200 < do 1 $j put $j $i + !j end end $i 1 + !i end halt",
    /* recursive Fibonacci */
    ":f dup 2 < then return end dup 1 - f( swap 2 - f( + return end 0 !i while $i 11 < do $i f( print $i 1 + !i end halt",
    /* greatest common divisors */
    ":g while dup 0 = not do swap !a dup !b $a $b % end drop return end 1 !i while $i 60 < do $i 84 * 360 g( print $i 1 + !i end",
    /* steps of Collatz */
    "1 !n while $n 40 < do $n !x 0 !c while $x 1 = not do $x 2 % then $x 3 * 1 + !x else $x 2 / !x end $c 1 + !c end "
    "$c print $n 1 + !n end halt",
    /* a bubble sort */
    "0 !i while $i 24 < do $i 7919 * 101 % $i put $i 1 + !i end 0 !i while $i 24 < do 0 !j while $j 23 < do "
    "$j 1 + at $j at < then $j at !t $j 1 + at $j put $t $j 1 + put end $j 1 + !j end $i 1 + !i end "
    "0 !i while $i 24 < do $i at print $i 1 + !i end halt",
};

static void mix_code(const Code *code) {
    for (int i = 0; i < code->count; i++)
        mix((uint64_t)code->code[i]);
}

void run(int size) {
    for (unsigned s = 0; s < sizeof sources / sizeof sources[0]; s++) {
        Code code;
        Machine machine;
        memset(&code, 0, sizeof code);
        compile(&code, sources[s]);
        mix_code(&code);
        memset(&machine, 0, sizeof machine);
        mix((uint64_t)execute(&machine, &code, size));
        for (int i = 0; i < 64; i++)
            mix((uint64_t)machine.memory[i]);
    }
}
