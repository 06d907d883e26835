#compdef callgate
# Completion of callgate for zsh. Put this line into ~/.zshrc, behind compinit:
#   eval "$(callgate completion zsh)"
_callgate() {
    local line value files=
    local -a before values shown
    before=("${(@Q)words[2,CURRENT-1]}")
    for line in "${(@f)$("${(Q)words[1]}" __complete "=${(Q)words[CURRENT]}" "${before[@]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            value=${line%%$'\t'*}
            values+=("$value")
            if [[ $line == *$'\t'* ]]; then
                shown+=("$value  -- ${line#*$'\t'}")
            else
                shown+=("$value")
            fi
        fi
    done
    (( ${#values} )) && compadd -l -d shown -a values
    [[ -n $files ]] && _files
    return 0
}
if [[ ${funcstack[1]:-} == _callgate ]]; then
    _callgate "$@"
else
    compdef _callgate callgate
fi
