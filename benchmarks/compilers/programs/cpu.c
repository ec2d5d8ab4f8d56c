/* Interpreters: an eight-bit processor with flags and addressing modes, its assembler and a state machine for a bus. */
#include "suite.h"

enum { LDA, STA, ADC, SBC, AND, ORA, EOR, CMP, INC, DEC, ASL, LSR, BNE, BEQ, BCC, BMI, JSR, RTS, TAX, TXA, INX, DEX, NOP, HLT };
enum { NONE, IMMEDIATE, DIRECT, INDEXED, INDIRECT };

typedef struct {
    uint8_t a, x, stack, flags;
    uint16_t pc;
    uint8_t memory[4096];
    unsigned cycles;
} Cpu;

enum { CARRY = 1, ZERO = 2, OVERFLOW = 64, NEGATIVE = 128 };

static uint8_t fetch(Cpu *cpu) { return cpu->memory[cpu->pc++ & 4095]; }

static void set_flags(Cpu *cpu, uint8_t value) {
    cpu->flags = (uint8_t)((cpu->flags & ~(ZERO | NEGATIVE)) | (value ? 0 : ZERO) | (value & NEGATIVE));
}

static uint16_t address(Cpu *cpu, int mode) {
    uint16_t low, at;
    switch (mode) {
    case IMMEDIATE:
        return cpu->pc++;
    case DIRECT:
        low = fetch(cpu);
        return (uint16_t)(low | fetch(cpu) << 8);
    case INDEXED:
        low = fetch(cpu);
        cpu->cycles++;
        return (uint16_t)((low | fetch(cpu) << 8) + cpu->x);
    case INDIRECT:
        at = fetch(cpu);
        cpu->cycles += 2;
        return (uint16_t)(cpu->memory[at] | cpu->memory[(at + 1) & 255] << 8);
    default:
        return 0;
    }
}

static void add(Cpu *cpu, uint8_t value) {
    unsigned sum = (unsigned)cpu->a + value + (cpu->flags & CARRY);
    uint8_t result = (uint8_t)sum;
    cpu->flags &= (uint8_t)~(CARRY | OVERFLOW);
    if (sum > 255)
        cpu->flags |= CARRY;
    if (~(cpu->a ^ value) & (cpu->a ^ result) & 128)
        cpu->flags |= OVERFLOW;
    cpu->a = result;
    set_flags(cpu, result);
}

static void compare(Cpu *cpu, uint8_t value) {
    cpu->flags = (uint8_t)((cpu->flags & ~CARRY) | (cpu->a >= value ? CARRY : 0));
    set_flags(cpu, (uint8_t)(cpu->a - value));
}

static void branch(Cpu *cpu, int taken) {
    int8_t distance = (int8_t)fetch(cpu);
    if (taken) {
        cpu->pc = (uint16_t)(cpu->pc + distance);
        cpu->cycles++;
    }
}

static void shift(Cpu *cpu, int left) {
    cpu->flags = (uint8_t)((cpu->flags & ~CARRY) | (left ? cpu->a >> 7 : cpu->a & 1));
    cpu->a = (uint8_t)(left ? cpu->a << 1 : cpu->a >> 1);
    set_flags(cpu, cpu->a);
}

int step(Cpu *cpu) {
    uint8_t op = fetch(cpu), *memory = cpu->memory;
    uint16_t at = address(cpu, op >> 5);
    uint8_t *place = &memory[at & 4095];
    cpu->cycles += 2;
    switch (op & 31) {
    case LDA: set_flags(cpu, cpu->a = *place); break;
    case STA: *place = cpu->a; break;
    case ADC: add(cpu, *place); break;
    case SBC: add(cpu, (uint8_t)~*place); break;
    case AND: set_flags(cpu, cpu->a &= *place); break;
    case ORA: set_flags(cpu, cpu->a |= *place); break;
    case EOR: set_flags(cpu, cpu->a ^= *place); break;
    case CMP: compare(cpu, *place); break;
    case INC: set_flags(cpu, ++*place); break;
    case DEC: set_flags(cpu, --*place); break;
    case ASL: shift(cpu, 1); break;
    case LSR: shift(cpu, 0); break;
    case BNE: branch(cpu, !(cpu->flags & ZERO)); break;
    case BEQ: branch(cpu, cpu->flags & ZERO); break;
    case BCC: branch(cpu, !(cpu->flags & CARRY)); break;
    case BMI: branch(cpu, cpu->flags & NEGATIVE); break;
    case JSR:
        memory[0x100 | cpu->stack--] = (uint8_t)(cpu->pc >> 8);
        memory[0x100 | cpu->stack--] = (uint8_t)cpu->pc;
        cpu->pc = at;
        break;
    case RTS:
        cpu->pc = memory[0x100 | ++cpu->stack];
        cpu->pc = (uint16_t)(cpu->pc | memory[0x100 | ++cpu->stack] << 8);
        break;
    case TAX: set_flags(cpu, cpu->x = cpu->a); break;
    case TXA: set_flags(cpu, cpu->a = cpu->x); break;
    case INX: set_flags(cpu, ++cpu->x); break;
    case DEX: set_flags(cpu, --cpu->x); break;
    case NOP: break;
    default: return 0;
    }
    return 1;
}

/* Assembles words such as "lda #5", "sta 300", "adc 200,x", "bne @loop", ".loop". */
int assemble(uint8_t *memory, int origin, const char *text) {
    static const char names[] = "ldastaadcsbcandoraeorcmpincdecasllsrbnebeqbccbmijsrrtstaxtxainxdexnophlt";
    struct {
        char name;
        int at, is_jump;
    } labels[16], uses[32];
    int label_count = 0, use_count = 0, at = origin;
    while (*text) {
        if (*text == ' ') {
            text++;
            continue;
        }
        if (*text == '.') {
            labels[label_count].name = text[1];
            labels[label_count++].at = at;
            text += 2;
            continue;
        }
        int op = 0;
        while (strncmp(names + 3 * op, text, 3) != 0)
            op++;
        text += 3;
        int mode = NONE, start = at++;
        if (*text == ' ' && (text[1] == '#' || text[1] == '@' || text[1] == '*' || (text[1] >= '0' && text[1] <= '9'))) {
            text++;
            int is_jump = op == JSR;
            if (*text == '@') {
                uses[use_count].name = text[1];
                uses[use_count].is_jump = is_jump;
                uses[use_count++].at = at;
                at += is_jump ? 2 : 1;
                mode = is_jump ? DIRECT : NONE;
                text += 2;
            } else {
                mode = *text == '#' ? IMMEDIATE : *text == '*' ? INDIRECT : DIRECT;
                text += mode != DIRECT;
                int value = atoi(text);
                while (*text >= '0' && *text <= '9')
                    text++;
                if (*text == ',') {
                    mode = INDEXED;
                    text += 2;
                }
                memory[at++] = (uint8_t)value;
                if (mode == DIRECT || mode == INDEXED)
                    memory[at++] = (uint8_t)(value >> 8);
            }
        }
        memory[start] = (uint8_t)(op | mode << 5);
    }
    for (int u = 0; u < use_count; u++)
        for (int l = 0; l < label_count; l++)
            if (labels[l].name == uses[u].name) {
                int where = uses[u].at;
                memory[where] = (uint8_t)(uses[u].is_jump ? labels[l].at : labels[l].at - where - 1);
                if (uses[u].is_jump)
                    memory[where + 1] = (uint8_t)(labels[l].at >> 8);
            }
    return at - origin;
}

/* A line that sends bytes: idle, start bit, eight data bits, parity, stop bit. Returns the received bytes. */
int receive(const uint8_t *bits, int count, uint8_t *out) {
    enum { IDLE, DATA, PARITY, STOP } state = IDLE;
    int bit = 0, parity = 0, received = 0, errors = 0;
    uint8_t byte = 0;
    for (int i = 0; i < count; i++) {
        int level = bits[i >> 3] >> (i & 7) & 1;
        switch (state) {
        case IDLE:
            if (!level) {
                state = DATA;
                bit = parity = 0;
                byte = 0;
            }
            break;
        case DATA:
            byte = (uint8_t)(byte | level << bit);
            parity ^= level;
            if (++bit == 8)
                state = PARITY;
            break;
        case PARITY:
            errors += level != parity;
            state = STOP;
            break;
        case STOP:
            if (level)
                out[received++] = byte;
            else
                errors++;
            state = IDLE;
        }
    }
    return received * 1000 + errors;
}

void run(int size) {
    static const char *sources[] = {
        "lda #0 tax .a txa adc 1500,x eor #90 sta 1600,x inx bne @a hlt",
        "lda #200 sta 1400 .a lda 1400 jsr @f sta 1401 adc 1402 sta 1402 dec 1400 bne @a hlt .f asl bcc @g eor #29 .g adc #3 rts",
        "lda #0 sta 20 lda #6 sta 21 lda #0 tax .a lda *20 cmp 1500,x bcc @b adc #7 .b sta 1700,x inc 20 inx bne @a hlt",
    };
    Cpu *cpu = malloc(sizeof(Cpu));
    for (unsigned s = 0; s < sizeof sources / sizeof sources[0]; s++) {
        memset(cpu, 0, sizeof *cpu);
        cpu->stack = 255;
        cpu->pc = 0x200;
        mix((uint64_t)assemble(cpu->memory, 0x200, sources[s]));
        for (int i = 0; i < 256; i++)
            cpu->memory[1500 + i] = (uint8_t)next_random();
        int steps = 0;
        while (steps < size && step(cpu))
            steps++;
        mix((uint64_t)steps * 100000 + cpu->cycles);
        for (int i = 0; i < 4096; i++)
            mix(cpu->memory[i]);
    }
    for (int i = 0; i < 2048; i++)
        cpu->memory[i] = (uint8_t)next_random();
    uint8_t *out = cpu->memory + 2048;
    int received = receive(cpu->memory, 2048 * 8, out);
    mix((uint64_t)received);
    for (int i = 0; i < received / 1000; i++)
        mix(out[i]);
    free(cpu);
}
