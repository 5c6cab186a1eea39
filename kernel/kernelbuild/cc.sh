#!/bin/bash
# A C compiler for the kernel's build that reads the headers which most files share only once (headers.h, precompiled).
#
# Used for C files of the kernel proper; not for arch, whose files partly belong to the host's side, nor for scripts. A
# file that does not compile with the additional headers in front is compiled without. Incremental builds are not
# supported: the dependency files name only the source. Keeps its files in .icgw-pch in the folder that make runs in.

headers=$(dirname "$0")/headers.h
source=${*: -1}

case " $* " in
*" -D__KERNEL__ "*" -c "*) ;;
*) exec gcc "$@" ;;
esac
case /$source in
*/arch/* | */scripts/* | */lib/vdso/*) exec gcc "$@" ;;
*.c) ;;
*) exec gcc "$@" ;;
esac

options=() names= object= depfile= skip=
for argument; do
    case $skip in
    include)
        skip=
        case $argument in
        */compiler-version.h | */kconfig.h | */compiler_types.h) ;;
        *) options+=(-include "$argument") ;;
        esac
        continue
        ;;
    object)
        skip= object=$argument
        continue
        ;;
    esac
    case $argument in
    -include) skip=include ;;
    -o) skip=object ;;
    -c | "$source") ;;
    -Wp,-MMD,*) depfile=${argument#-Wp,-MMD,} ;;
    -DKBUILD_MODFILE=* | -DKBUILD_BASENAME=* | -DKBUILD_MODNAME=* | -D__KBUILD_MODNAME=*)
        name=${argument#-D}
        names+="#undef ${name%%=*}"$'\n'"#define ${name%%=*} ${name#*=}"$'\n'
        ;;
    *) options+=("$argument") ;;
    esac
done

folder=.icgw-pch
if [ ! -e $folder/headers.h.gch ]; then
    mkdir -p $folder
    if mkdir $folder/lock 2> /dev/null; then
        cp "$headers" $folder/headers.h
        gcc "${options[@]}" -x c-header -o $folder/new.gch $folder/headers.h > $folder/log 2>&1 \
            && mv $folder/new.gch $folder/headers.h.gch || : > $folder/headers.h.gch
        rmdir $folder/lock
    fi
fi
while [ -d $folder/lock ]; do sleep 0.1; done

printf '%s' "$names" > "$folder/$$.h"
if gcc "${options[@]}" -include $folder/headers.h -include "$folder/$$.h" -c -o "$object" "$source" 2> /dev/null; then
    [ -z "$depfile" ] || printf '%s: %s\n' "$object" "$source" > "$depfile"
    rm -f "$folder/$$.h"
else
    rm -f "$folder/$$.h"
    printf '%s\n' "$source" >> $folder/without
    exec gcc "$@"
fi
