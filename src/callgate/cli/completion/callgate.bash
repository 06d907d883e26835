# Completion of callgate for bash. Put this line into ~/.bashrc:
#   eval "$(callgate completion bash)"
_callgate() {
    local value files=
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        if [[ $value == :files ]]; then
            files=1
        elif [[ -n $value ]]; then
            COMPREPLY+=("$(printf '%q' "$value")")
        fi
    done < <("$1" __complete "=${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r value; do
            COMPREPLY+=("$value")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}")
    fi
}
complete -F _callgate callgate
