# Tandem: one Makefile, no recursion.
#
#   make [BUILD=release|debug] [SANITIZE=address|undefined|thread] [V=1]
#   make test | bench | fuzz | check-layers | check-headers | format | install
#
# Every variant has its own folder below build/; O=DIR puts it elsewhere.

BUILD    ?= release
SANITIZE ?=
PREFIX   ?= /usr/local
DESTDIR  ?=
CC       ?= cc

comma    := ,
empty    :=
space    := $(empty) $(empty)
variant  := $(BUILD)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
O        ?= build/$(variant)
Q        := $(if $(V),,@)
say       = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

# ---- libraries ----------------------------------------------------------
libs_base   :=
libs_tensor :=
libs_shm    :=
libs_ipc    :=
libs_flash  := libzstd liburing
libs_device := libseccomp
libs_host   := libpcre2-8 jansson libxxhash dbus-1 liburing libzstd
libs_test   := cmocka
all_libs    := $(sort $(libs_flash) $(libs_device) $(libs_host))

pkg_cflags := $(shell pkg-config --cflags $(all_libs) $(libs_test))
pkg_libs    = $(if $(strip $(1)),$(shell pkg-config --libs $(1)))

# ---- flags --------------------------------------------------------------
warnings := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wcast-qual -Wwrite-strings -Wvla -Wformat=2 -Wundef \
	-Wno-unused-parameter -Wno-missing-field-initializers
opt_release := -O2
opt_debug   := -Og -DDEBUG
# -ffp-contract=off: one rounding per operation, so that a kernel compiled
# for another instruction set gives the same bytes.
cflags := -std=gnu11 -D_GNU_SOURCE -I. -g $(opt_$(BUILD)) $(warnings) \
	-fno-strict-aliasing -ffp-contract=off -pthread -fno-common \
	-ffile-prefix-map=$(CURDIR)=. $(pkg_cflags) \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer) \
	$(if $(findstring undefined,$(SANITIZE)),-fno-sanitize-recover=all) \
	$(CFLAGS)
ldflags := -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
arch    := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))

# ---- sources ------------------------------------------------------------
rooms := base tensor shm ipc flash device host
src_host   := $(wildcard host/*.c host/model/*.c host/draft/*.c \
	host/method/*.c)
src_device := $(wildcard device/*.c)
$(foreach r,base tensor shm ipc flash,$(eval src_$(r) := $(wildcard $(r)/*.c)))

mains := host/tandem.c device/tandem_npu.c
# One source of vector kernels, compiled once for each instruction set.
kern_src := tensor/kern_vec.c
src_tensor := $(filter-out $(kern_src),$(src_tensor))
isa_x86_64  := base avx2 avx512
isa_aarch64 := base
isas := $(or $(isa_$(arch)),base)
isa_flags_base   :=
isa_flags_avx2   := -mavx2 -mf16c
isa_flags_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c \
	-mprefer-vector-width=512

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
$(foreach r,$(rooms),$(eval obj_$(r) := \
	$(call obj,$(filter-out $(mains),$(src_$(r))))))
obj_kern := $(foreach i,$(isas),$(O)/obj/tensor/kern_vec.$(i).o)
obj_tensor += $(obj_kern)

lib = $(O)/lib$(1).a
# What each room stands on, itself first: the order of the link line too.
deps_base   := base
deps_tensor := tensor base
deps_shm    := shm base
deps_ipc    := ipc shm base
deps_flash  := flash shm base
deps_device := device ipc shm tensor base
deps_host   := host ipc flash shm tensor base
libs_of      = $(sort $(foreach r,$(deps_$(1)),$(libs_$(r))))

programs := $(O)/tandem $(O)/tandem-npu

.PHONY: all
all: $(programs)

$(foreach r,$(rooms),$(eval $(call lib,$(r)): $(obj_$(r))))
$(O)/lib%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/obj/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(cflags) -MMD -MP -c -o $@ $<

define isa_rule
$(O)/obj/tensor/kern_vec.$(1).o: $(kern_src) Makefile
	$$(call say,CC,$$< [$(1)])
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(cflags) -O3 $(isa_flags_$(1)) -DKERN_ISA=$(1) \
		-MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(isas),$(eval $(call isa_rule,$(i))))

link = $(Q)$(CC) $(ldflags) -o $@ $(filter %.o,$^) \
	$(foreach r,$(deps_$(1)),$(call lib,$(r))) \
	$(call pkg_libs,$(call libs_of,$(1)) $(2)) -lm

$(O)/tandem: $(call obj,host/tandem.c) \
		$(foreach r,$(deps_host),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,host)

$(O)/tandem-npu: $(call obj,device/tandem_npu.c) \
		$(foreach r,$(deps_device),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,device)

# ---- tests --------------------------------------------------------------
# tests/ROOM/test_X.c links what ROOM may include and nothing else, so a
# test cannot reach across a wall either.
test_src := $(foreach r,$(rooms),$(wildcard tests/$(r)/test_*.c))
tests    := $(patsubst tests/%.c,$(O)/tests/%,$(test_src))

define test_rule
$(O)/tests/$(1)/test_%: $(O)/obj/tests/$(1)/test_%.o \
		$(O)/obj/tests/harness.o \
		$(foreach r,$(deps_$(1)),$(call lib,$(r)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(call link,$(1),cmocka)
endef
$(foreach r,$(rooms),$(eval $(call test_rule,$(r))))
.PRECIOUS: $(O)/obj/%.o

# tests/fuzz/fuzz_ROOM_X.c: libFuzzer with CC=clang, a corpus replayer and
# mutator (tests/fuzz/driver.c) with any compiler.
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
fuzzers  := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(fuzz_src))
define fuzz_rule
$(O)/fuzz/fuzz_$(1)_%: $(O)/obj/tests/fuzz/fuzz_$(1)_%.o \
		$(O)/obj/tests/fuzz/driver.o \
		$(foreach r,$(deps_$(1)),$(call lib,$(r)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(call link,$(1))
endef
$(foreach r,$(rooms),$(eval $(call fuzz_rule,$(r))))

.PHONY: tests fuzzers test bench fuzz
tests: $(tests)
fuzzers: $(fuzzers)

test: all tests fuzzers
	$(Q)tests/run -O $(O)

bench: all
	$(Q)$(O)/tandem bench ipc

# Mutated inputs per fuzz target; CI replays the corpus with fewer.
FUZZ_RUNS ?= 100000
fuzz: fuzzers
	$(Q)for f in $(fuzzers); do \
		$$f --corpus tests/fuzz/corpus/$${f##*/} \
			--runs $(FUZZ_RUNS) || exit 1; \
	done

# ---- checks -------------------------------------------------------------
headers := $(foreach r,$(rooms) host/model host/draft host/method, \
	$(wildcard $(r)/*.h))
.PHONY: check-layers check-headers format check-format
check-layers:
	$(Q)scripts/check-layers

check-headers: $(patsubst %.h,$(O)/obj/%.h.ok,$(headers))
$(O)/obj/%.h.ok: %.h
	$(Q)mkdir -p $(@D)
	$(Q)printf '#include "%s"\nextern int check_header_;\n' $< | \
		$(CC) $(cflags) -x c -fsyntax-only - && touch $@

formatted := $(shell git ls-files -co --exclude-standard '*.c' '*.h' \
	2>/dev/null)
format:
	$(Q)clang-format -i $(formatted)
check-format:
	$(Q)clang-format --dry-run -Werror $(formatted)

# ---- install ------------------------------------------------------------
.PHONY: install uninstall man clean help
man: $(O)/tandem.1 $(O)/tandem-npu.1
$(O)/tandem.1: $(O)/tandem
	$(Q)$< help --man > $@
$(O)/tandem-npu.1: $(O)/tandem-npu
	$(Q)$< --man > $@

install: all man
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(programs) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(O)/tandem.1 $(O)/tandem-npu.1 \
		$(DESTDIR)$(PREFIX)/share/man/man1
	$(O)/tandem help --completion > \
	$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tandem

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/tandem \
		$(DESTDIR)$(PREFIX)/bin/tandem-npu \
		$(DESTDIR)$(PREFIX)/share/man/man1/tandem.1 \
		$(DESTDIR)$(PREFIX)/share/man/man1/tandem-npu.1 \
	$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tandem

clean:
	rm -rf build

help:
	@sed -n '3,7s/^# \{0,1\}//p' Makefile

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
